"""MGToolBench: real ToolBench requests with their ordered APIs (the paper's ToolBench setting).

A tool is an API of a RapidAPI tool, named "tool.api": an API's name alone is ambiguous. The
published paraphrases name the tools, so only the original request is ever the query. Its graph is
made of adjacent pairs of plans: the catalog's edges come from training plans alone, the graph over
all rows is written beside.
"""

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from data_prep.manifest import Converted, Table3
from data_prep.records import Tally, read_json, read_rows
from data_prep.splits import split_examples
from graft_jax.catalog.catalog import Catalog, Tool
from graft_jax.data.examples import Example
from graft_jax.errors import GraftError
from graft_jax.evaluation.leaks import normalise

APIS, TOOLS = "api_instruction_5000.json", "tool_instruction_5000.json"
ALL_ROWS_GRAPH = "graph_all_rows.json"
PAPER = Table3(tools=612, edges=3140, train=1908, validation=500, test=500, max_length=10)
MAX_LENGTH = 10
MOST_FREQUENT = 612
_SUBTASK_WORDS = 30
_PARAMETERS = ("required_parameters", "optional_parameters")


def convert(
    folder: Path,
    descriptions: Path | None = None,
    official: bool = True,
    held_out: int = 500,
    seed: int = 0,
    published_at: str = "",
    most_frequent: int = MOST_FREQUENT,
) -> Converted:
    """Reads the published instruction files.

    Args:
      folder: with the two instruction files.
      descriptions: ToolBench's API descriptions: a JSONL file (.gz or not), one tool a line, or its
        folder of categories of tools. Without it descriptions and parameters are empty and subtasks
        are the API's name in words, which is counted.
      official: has no effect; there is no official split.
      held_out, seed, published_at: as `ultratool.convert`.
      most_frequent: tools kept, by number of rows; ties in order of first appearance.

    Raises:
      GraftError: a file is missing or damaged; a split would be empty.
    """
    del official
    tally = Tally()
    rows = read_rows(folder / APIS)
    tool_rows = {str(row.get("path")): row for row in read_rows(folder / TOOLS)}
    plans = _plans(rows, tool_rows, tally)
    frequency = Counter(tool for _, plan in plans.values() for tool in plan)
    frequent = {tool for tool, _ in frequency.most_common(most_frequent)}
    kept: dict[str, tuple[str, tuple[str, ...]]] = {}
    for identity, (query, plan) in plans.items():
        if frequent.issuperset(plan):
            kept[identity] = (query, plan)
        else:
            tally.leave_out(f"a tool outside the {most_frequent} most frequent", identity)
    tally.refuse_none_left(kept, folder / APIS)
    used = sorted({tool for _, plan in kept.values() for tool in plan})
    found = _descriptions(descriptions) if descriptions else {}
    tools, subtask_of = _tools(used, found, tally)
    splits = split_examples(
        [
            Example(identity, query, tuple(subtask_of[tool] for tool in plan), plan)
            for identity, (query, plan) in kept.items()
        ],
        None,
        held_out,
        seed,
    )
    everything = [example for members in splits.values() for example in members]
    return Converted(
        dataset="mgtoolbench",
        catalog=Catalog(tools, _edges(splits["train"])),
        splits=splits,
        tally=tally,
        rows_read=len(rows),
        files=[folder / APIS, folder / TOOLS, *([descriptions] if descriptions else [])],
        published_at=published_at,
        licence="CC BY-NC-SA 4.0: research only",
        filter=f"one row a request, no repeated tool, at most {MAX_LENGTH} tools, only the "
        f"{most_frequent} most frequent tools",
        split=f"seeded: {held_out} ids for test, {held_out} for validation, the rest train; edges "
        f"from training plans, all rows' in {ALL_ROWS_GRAPH}",
        seed=seed,
        paper=PAPER,
        extra={ALL_ROWS_GRAPH: {"edges": [list(edge) for edge in _edges(everything)]}},
    )


def _plans(
    rows: Sequence[dict[str, Any]], tool_rows: dict[str, dict[str, Any]], tally: Tally
) -> dict[str, tuple[str, tuple[str, ...]]]:
    """id -> (request, plan) of the rows that pass every filter but that of frequency."""
    plans: dict[str, tuple[str, tuple[str, ...]]] = {}
    seen: set[str] = set()
    for number, row in enumerate(rows, start=1):
        identity, query = row.get("path"), row.get("original_query")
        if not isinstance(identity, str) or not identity.strip():
            tally.leave_out("row without a path", f"line {number}")
            continue
        apis = _listed(row, "API")
        tools = _listed(tool_rows.get(identity, {}), "Tool")
        if not isinstance(query, str) or not query.strip():
            reason = "request missing or blank"
        elif not apis or len(apis) != len(tools):
            reason = "tools and APIs do not pair up"
        elif identity in plans:
            reason = "path that stood before"
        elif normalise(query) in seen:
            reason = "request that stood before"
        elif len(set(zip(tools, apis, strict=True))) < len(apis):
            reason = "repeats a tool"
        elif len(apis) > MAX_LENGTH:
            reason = f"more than {MAX_LENGTH} tools"
        else:
            reason = ""
            plan = tuple(f"{tool}.{api}" for tool, api in zip(tools, apis, strict=True))
            plans[identity] = (query.strip(), plan)
        if isinstance(query, str):
            seen.add(normalise(query))
        if reason:
            tally.leave_out(reason, identity)
    return plans


def _listed(row: dict[str, Any], label: str) -> list[str]:
    """The names in the last line of a row's "query", "<label>: a, b, c."; [] where it has none."""
    last = str(row.get("query", "")).rsplit("\n", 1)[-1].strip()
    match = re.fullmatch(rf"{label}: (.+)\.", last)
    return match.group(1).split(", ") if match else []


def _edges(examples: Sequence[Example]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted({edge for e in examples for edge in itertools.pairwise(e.tools)}))


def _tools(
    names: Sequence[str], found: dict[str, dict[str, Any]], tally: Tally
) -> tuple[tuple[Tool, ...], dict[str, str]]:
    """Catalog entries, and for each tool the text of its subtask."""
    tools, subtasks = [], {}
    for name in names:
        api = found.get(name)
        if api is None:
            tally.note("tool without an entry among the descriptions", name)
            api = {}
        description = " ".join(str(api.get("description") or "").split())
        if api and not description:
            tally.note("tool whose description is empty", name)
        tools.append(Tool(name, description, _parameters(api) if api else None))
        subtasks[name] = _first_sentence(description) or _name_in_words(name)
    return tuple(tools), subtasks


def _first_sentence(description: str) -> str:
    """Up to the first full stop, at most 30 words, without HTML: some descriptions are manuals."""
    text = re.sub(r"</?[a-z]+\d?\s*/?>", " ", description, flags=re.IGNORECASE).strip()
    sentence = re.split(r"(?<=[.!?])\s", text, maxsplit=1)[0]
    return " ".join(sentence.split()[:_SUBTASK_WORDS])


def _name_in_words(name: str) -> str:
    tool, _, api = name.partition(".")
    return f"{normalise(api)} with {normalise(tool)}"


def _descriptions(path: Path) -> dict[str, dict[str, Any]]:
    """ "tool.api" -> the API's entry; where an API stands more than once, the first described."""
    found: dict[str, dict[str, Any]] = {}
    for tool in _described_tools(path):
        name = tool.get("standardized_name")
        for api in _objects(tool, "api_list", f"{path}, tool {name!r}"):
            key = f"{name}.{standardise(str(api.get('name') or ''))}"
            for parameters in _PARAMETERS:
                _objects(api, parameters, f"{path}, {key!r}")
            if key not in found or (api.get("description") and not found[key].get("description")):
                found[key] = api
    return found


def _objects(record: dict[str, Any], key: str, where: str) -> list[dict[str, Any]]:
    values = record.get(key) or []
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise GraftError(f"{where}: {key} is no list of objects; fetch the file again")
    return values


def _described_tools(path: Path) -> Iterator[dict[str, Any]]:
    if not path.is_dir():
        yield from read_rows(path)
        return
    files = sorted(path.rglob("*.json"))
    if not files:
        raise GraftError(f"{path}: holds no .json file; name ToolBench's toolenv/tools folder")
    for file in files:
        content = read_json(file)
        if isinstance(content, dict):
            yield {"standardized_name": file.stem} | content


def standardise(name: str) -> str:
    """ToolBench's spelling of an API's name: lower case, "_" for anything else, no digit first."""
    name = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    return f"get_{name}" if name[:1].isdigit() else name


_JSON_TYPES = {
    "NUMBER": "number",
    "FLOAT": "number",
    "BOOLEAN": "boolean",
    "ARRAY": "array",
    "LIST": "array",
    "OBJECT": "object",
    "MAP": "object",
}


def _parameters(api: dict[str, Any]) -> dict[str, Any]:
    """JSON Schema of an API's parameters; types JSON does not have are texts."""
    required, optional = (
        [item for item in api.get(key) or () if item.get("name")] for key in _PARAMETERS
    )
    properties = {
        str(item["name"]): {
            "type": _JSON_TYPES.get(str(item.get("type")).upper(), "string"),
            "description": str(item.get("description") or ""),
        }
        for item in (*required, *optional)
    }
    return {
        "type": "object",
        "properties": properties,
        "required": list(dict.fromkeys(str(item["name"]) for item in required)),
    }
