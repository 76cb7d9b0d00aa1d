"""The folder format that TaskBench and UltraTool share, as published for graph-based planning.

    data.json           {id, user_request, task_steps, task_nodes, task_links, type}, one a line
    graph_desc.json     {"nodes": [...], "links": [{"source", "target"}]}
    tool_desc.json      {"nodes": [{"id", "desc", ...}]}
    split_ids.json      {"test_ids": {"chain": [...]}}
    user_requests.json  {id, user_request}, one a line, gold or not    may be absent

Knows the format, not the data sets; what a step's text looks like is the caller's.
"""

import dataclasses
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from data_prep.plans import NotAChain, order_chain
from data_prep.records import Tally, read_json, read_rows
from graft_jax.catalog.catalog import Catalog, Tool
from graft_jax.errors import GraftError

DATA, GRAPH, TOOLS = "data.json", "graph_desc.json", "tool_desc.json"
SPLIT_IDS, REQUESTS = "split_ids.json", "user_requests.json"


@dataclasses.dataclass(frozen=True)
class Chain:
    """A usable row: `tools` in execution order, `steps` as published."""

    id: str
    query: str
    tools: tuple[str, ...]
    steps: tuple[str, ...]


def load_catalog(folder: Path) -> Catalog:
    """Tools in published order and the published graph.

    Raises:
      GraftError: a file is missing or does not have the format; a link names an unknown tool.
    """
    tools = _parsed(_tool, folder / TOOLS, "nodes", "id and desc")
    edges = _parsed(_edge, folder / GRAPH, "links", "source and target")
    try:
        return Catalog(tuple(tools), tuple(dict.fromkeys(edges)))
    except GraftError as error:
        raise GraftError(f"{folder}: {error}") from None


def _parsed(parse: Callable[[Any], Any], path: Path, key: str, fields: str) -> list[Any]:
    parsed = []
    for number, record in enumerate(_list_of(path, key)):
        try:
            parsed.append(parse(record))
        except (KeyError, TypeError, AttributeError):
            raise GraftError(
                f"{path}: number {number} of its {key} is {record!r:.200}; each has {fields}: "
                "fetch the published file again"
            ) from None
    return parsed


def _tool(node: Mapping[str, Any]) -> Tool:
    return Tool(node["id"], node.get("desc") or "", _parameters(node), _outputs(node))


def _edge(link: Mapping[str, Any]) -> tuple[str, str]:
    if not isinstance(link["source"], str) or not isinstance(link["target"], str):
        raise TypeError
    return link["source"], link["target"]


def load_test_ids(folder: Path) -> tuple[str, ...]:
    """The official test ids of the chains.

    Raises:
      GraftError: the file is missing or does not have the format.
    """
    path = folder / SPLIT_IDS
    if not path.exists():
        raise GraftError(
            f"{path}: no such file; it holds the published test ids: fetch it, or give "
            "--split seeded for a drawn test split"
        )
    content = read_json(path)
    try:
        ids = content["test_ids"]["chain"]
    except (KeyError, TypeError):
        ids = None
    if not isinstance(ids, list) or not ids or not all(isinstance(i, str | int) for i in ids):
        raise GraftError(
            f'{path}: expected {{"test_ids": {{"chain": [ids]}}}}; fetch the file again, '
            "or give --split seeded"
        )
    return tuple(dict.fromkeys(str(i) for i in ids))


def load_chains(folder: Path, catalog: Catalog, tally: Tally) -> tuple[list[Chain], int]:
    """The rows of data.json that are chains over the catalog, and how many rows there are.

    Every other row is counted in `tally` by reason.

    Raises:
      GraftError: data.json is missing, a line is not a JSON object, or no row can be used.
    """
    rows = read_rows(folder / DATA)
    chains: dict[str, Chain] = {}
    for number, row in enumerate(rows, start=1):
        identity = str(row.get("id") or "")
        if not identity.strip():
            tally.leave_out("row without an id", f"line {number}")
            continue
        try:
            chain = _chain(identity, row, catalog)
        except NotAChain as reason:
            tally.leave_out(str(reason), identity)
            continue
        if identity in chains:
            tally.leave_out("id that stood before", identity)
            continue
        chains[identity] = chain
        if not catalog.edge_set.issuperset(zip(chain.tools, chain.tools[1:], strict=False)):
            tally.note("plan with a step that the tool graph lacks", identity)
        if chain.query != row["user_request"]:
            tally.note("request with outer white space, taken off", identity)
        if len(set(chain.tools)) < len(chain.tools):
            tally.note("plan that repeats a tool", identity)
    tally.refuse_none_left(chains, folder / DATA)
    _count_requests_without_row(folder, {str(row.get("id")) for row in rows}, tally)
    return list(chains.values()), len(rows)


def note_test_ids(test_ids: Sequence[str] | None, kept: Collection[str], tally: Tally) -> None:
    """Counts official test ids whose row is missing or was left out."""
    for identity in test_ids or ():
        if identity not in kept:
            tally.leave_out(
                "official test id without a usable row (its row, if any, counts above)", identity
            )


def _chain(identity: str, row: Mapping[str, Any], catalog: Catalog) -> Chain:
    request = row.get("user_request")
    if not isinstance(request, str) or not request.strip():
        raise NotAChain("request missing or blank")
    if row.get("type", "chain") != "chain":
        raise NotAChain(f"type {row['type']}, not chain")
    try:
        tools = [node["task"] for node in row["task_nodes"]]
        links = [(link["source"], link["target"]) for link in row["task_links"]]
        steps = tuple(row["task_steps"])
    except (KeyError, TypeError):
        raise NotAChain("row without task_nodes, task_links or task_steps") from None
    if not all(isinstance(step, str) for step in steps):
        raise NotAChain("step that is not text")
    if any(not isinstance(tool, str) or tool not in catalog.index for tool in tools):
        raise NotAChain("tool that is not in the catalog")
    if len(tools) == 1:
        raise NotAChain("one tool alone")
    inputs = [_node_references(node.get("arguments")) for node in row["task_nodes"]]
    return Chain(identity, request.strip(), order_chain(tools, links, inputs), steps)


def _node_references(arguments: Any) -> set[int]:
    """The k of every `<node-k>` in a node's arguments: texts, or {"name", "value"} objects."""
    return {int(k) for k in re.findall(r"<node-(\d{1,6})>", str(arguments))}


def _count_requests_without_row(folder: Path, ids: Collection[str], tally: Tally) -> None:
    path = folder / REQUESTS
    if path.exists():
        for row in read_rows(path):
            if str(row.get("id")) not in ids:
                tally.leave_out(
                    f"request in {REQUESTS} without a row in {DATA}", str(row.get("id"))
                )


def _list_of(path: Path, key: str) -> list[Any]:
    content = read_json(path)
    value = content.get(key) if isinstance(content, dict) else None
    if not isinstance(value, list) or not value:
        raise GraftError(f"{path}: has no list {key!r}; fetch the published file again")
    return value


def _parameters(node: Mapping[str, Any]) -> dict[str, Any] | None:
    """JSON Schema of a node's inputs: named parameters, or one input per kind of data."""
    if "parameters" not in node:
        return _kinds(node.get("input-type"))
    properties = {
        item["name"]: {"type": "string", "description": item.get("desc") or ""}
        | ({"format": "date"} if item.get("type") == "date" else {})
        for item in node["parameters"]
    }
    return {"type": "object", "properties": properties, "required": list(properties)}


def _outputs(node: Mapping[str, Any]) -> dict[str, Any] | None:
    return _kinds(node.get("output-type"))


def _kinds(kinds: Sequence[str] | None) -> dict[str, Any] | None:
    """["audio", "audio"] -> an object schema with properties audio and audio_2."""
    if kinds is None:
        return None
    if not isinstance(kinds, list):
        raise TypeError
    properties: dict[str, Any] = {}
    for i, kind in enumerate(kinds):
        earlier = kinds[:i].count(kind)
        name = kind if not earlier else f"{kind}_{earlier + 1}"
        properties[name] = {"type": "string", "description": kind}
    return {"type": "object", "properties": properties, "required": list(properties)}


def files_of(folder: Path) -> list[Path]:
    """The files of the format that the folder has."""
    names = (DATA, GRAPH, TOOLS, SPLIT_IDS, REQUESTS)
    return [folder / name for name in names if (folder / name).exists()]


def describe_split(test_ids: Sequence[str] | None, held_out: int) -> str:
    """How the splits were made, in words."""
    if test_ids is None:
        return f"seeded: {held_out} ids for test, {held_out} for validation, the rest train"
    return f"official: {len(test_ids)} published test ids, {held_out} seeded ids for validation"
