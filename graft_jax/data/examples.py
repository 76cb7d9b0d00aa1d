"""The examples contract: requests with their subtasks and gold plans, one JSON object a line.

Reads, checks and writes `train|validation|test.jsonl`, and makes the grounding pairs of Eq. 4. It
must not know tokenizers, prompts, batches or JAX.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from graft_jax.catalog.catalog import Catalog, check_writable
from graft_jax.data.order import STEP_BUCKETS
from graft_jax.errors import GraftError

SPLITS = ("train", "validation", "test")
CATALOG_FILE = "catalog.json"
# A planner searches one tool further than the longest plan it has seen, and for the plan's end.
LONGEST_PLAN = STEP_BUCKETS[-1] - 2


@dataclasses.dataclass(frozen=True)
class Example:
    """A request and its gold plan.

    `tools` is the plan, in order, never empty. `subtasks` is one text a step where the source has
    them; it may be empty or of another length, and then serves no grounding.
    """

    id: str
    query: str
    subtasks: tuple[str, ...]
    tools: tuple[str, ...]

    @property
    def aligned(self) -> bool:
        """True where subtask k describes tool k: the counts agree, and there is at least one."""
        return len(self.subtasks) == len(self.tools) > 0


def load_examples(path: str | os.PathLike[str], catalog: Catalog) -> list[Example]:
    """Reads a JSONL file of examples, in file order; every tool must be in `catalog`.

    Each line is `{"id", "query", "subtasks": [...], "tools": [...]}`; further keys are ignored, and
    so are blank lines.

    Raises:
      GraftError: the file is missing, unreadable or without examples; a line is not a JSON object
        of that form; a query is not text or blank; a plan is empty, longer than LONGEST_PLAN or
        names an unknown tool; an id stands twice. The message names file, line and id.
    """
    path = Path(path)
    examples: list[Example] = []
    line_of: dict[str, int] = {}
    for number, line in enumerate(_lines(path), start=1):
        if not line.strip():
            continue
        example = _parse(line, f"{path}, line {number}")
        where = f"{path}, line {number}, id {example.id!r}"
        if example.id in line_of:
            raise GraftError(
                f"{where}: this id already stands on line {line_of[example.id]}; "
                "give each example an id of its own"
            )
        unknown = next((tool for tool in example.tools if tool not in catalog.index), None)
        if unknown is not None:
            raise GraftError(
                f"{where}: tool {unknown!r} is not in the catalog of {len(catalog.tools)} tools; "
                "add it to catalog.json or take the example out"
            )
        line_of[example.id] = number
        examples.append(example)
    if not examples:
        raise GraftError(f"{path}: holds no example; write at least one line of JSON into it")
    return examples


def save_examples(examples: Iterable[Example], path: str | os.PathLike[str]) -> None:
    """Writes examples as JSONL (UTF-8), whole or not at all."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "w", encoding="utf-8", newline="\n") as file:
            for example in examples:
                file.write(json.dumps(dataclasses.asdict(example), ensure_ascii=False) + "\n")
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()


def subtask_pairs(examples: Iterable[Example]) -> list[tuple[str, str]]:
    """Eq. 4: the grounding set {(s_k, z_k)}, one pair a step, of the aligned examples, in order."""
    return [
        pair
        for example in examples
        if example.aligned
        for pair in zip(example.subtasks, example.tools, strict=True)
    ]


def load_splits(folder: str | os.PathLike[str], catalog: Catalog) -> dict[str, list[Example]]:
    """Reads `train.jsonl`, `validation.jsonl` and `test.jsonl` of a folder, by split name.

    Raises:
      GraftError: as `load_examples` (a missing or empty split is one); an id stands in two splits.
    """
    splits = {name: load_examples(Path(folder) / f"{name}.jsonl", catalog) for name in SPLITS}
    split_of: dict[str, str] = {}
    for name, examples in splits.items():
        for example in examples:
            other = split_of.setdefault(example.id, name)
            if other != name:
                raise GraftError(
                    f"{folder}: id {example.id!r} stands in both {other}.jsonl and {name}.jsonl; "
                    "an example belongs to one split: take it out of the other"
                )
    return splits


def data_hash(folder: str | os.PathLike[str]) -> str:
    """SHA-256 (hex) over `catalog.json` and the three splits: their names, sizes and bytes.

    Raises:
      GraftError: one of the four files is missing or cannot be read.
    """
    digest = hashlib.sha256()
    for name in (CATALOG_FILE, *(f"{split}.jsonl" for split in SPLITS)):
        content = _read(Path(folder) / name)
        digest.update(f"{name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise GraftError(
            f"{path}: no such file; make the folder with data_prep/prepare.py or name another one"
        ) from None
    except OSError as error:
        raise GraftError(f"{path}: cannot be read ({error.strerror}); check the path") from None


def _lines(path: Path) -> list[str]:
    try:
        text = _read(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise GraftError(f"{path}, line {line}: is not UTF-8; save the file as UTF-8") from None
    # Not splitlines(): a text may hold U+2028 and the like, which JSON leaves unescaped.
    return text.split("\n")


def _parse(line: str, where: str) -> Example:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise GraftError(
            f"{where}: is not JSON ({error}); each line must be one JSON object"
        ) from None
    if not isinstance(record, dict):
        raise GraftError(f"{where}: is {type(record).__name__}, not a JSON object; see README")
    check_writable(record, where)
    identity = _field(record, "id", where)
    if not _is_text(identity):
        raise GraftError(f"{where}: 'id' is {identity!r}; it must be a text that is not blank")
    where = f"{where}, id {identity!r}"
    query = _field(record, "query", where)
    if not _is_text(query):
        raise GraftError(f"{where}: 'query' is {query!r}; it must be a text that is not blank")
    subtasks = _texts(_field(record, "subtasks", where), "subtasks", where)
    tools = _texts(_field(record, "tools", where), "tools", where)
    if not tools:
        raise GraftError(f"{where}: 'tools' is empty; a plan has at least one tool")
    if len(tools) > LONGEST_PLAN:
        raise GraftError(
            f"{where}: a plan of {len(tools)} tools; at most {LONGEST_PLAN} can be planned: "
            "shorten it or take the example out"
        )
    return Example(identity, query, subtasks, tools)


def _field(record: dict[str, Any], key: str, where: str) -> Any:
    if record.get(key) is None:
        raise GraftError(
            f"{where}: field {key!r} is missing; a line has id, query, subtasks, tools"
        )
    return record[key]


def _texts(value: Any, key: str, where: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise GraftError(f"{where}: {key!r} is {type(value).__name__}; it must be a list of texts")
    bad: Sequence[Any] = [item for item in value if not _is_text(item)]
    if bad:
        raise GraftError(f"{where}: {key!r} holds {bad[0]!r}; each must be a text, not blank")
    return tuple(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())
