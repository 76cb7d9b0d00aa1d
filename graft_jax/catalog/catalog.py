"""Tools and their graph as one immutable value, and the `catalog.json` that holds them.

Knows names, descriptions and edges. Must not know tokens, models or where the tools came from.
"""

import hashlib
import json
import logging
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

from graft_jax.errors import GraftError

_log = logging.getLogger(__name__)
_TOOL_KEYS = ("name", "description", "parameters", "outputs")


@dataclass(frozen=True)
class Tool:
    """One tool. `parameters` and `outputs` are JSON Schemas; None means that none was given."""

    name: str
    description: str = ""
    parameters: dict[str, Any] | None = None
    outputs: dict[str, Any] | None = None


@dataclass(frozen=True)
class Catalog:
    """Tools in index order and the directed tool graph over their names.

    An edge (a, b) says that b may be called after a; self-loops and cycles are legal.

    Raises:
      GraftError: no tool, one that is no `Tool` or has fields that `catalog.json` could not hold, a
        blank or repeated name, an edge that is no pair of tools' names, or the same edge twice.
    """

    tools: tuple[Tool, ...]
    edges: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        if not self.tools:
            raise GraftError("the catalog has no tools; give at least one")
        first: dict[str, int] = {}
        for i, tool in enumerate(self.tools):
            _check_tool(tool, i)
            if tool.name in first:
                raise GraftError(
                    f"tool {i}: the name {tool.name!r} is already that of tool {first[tool.name]}; "
                    "rename or remove one of them"
                )
            first[tool.name] = i
        seen: set[tuple[str, str]] = set()
        for i, edge in enumerate(self.edges):
            _check_edge(edge, i)
            for name in edge:
                if name not in first:
                    raise GraftError(
                        f"edge {i} {list(edge)!r}: there is no tool {name!r}; "
                        "add the tool or remove the edge"
                    )
            if edge in seen:
                raise GraftError(f"edge {i} {list(edge)!r} stands twice; remove one of them")
            seen.add(edge)

    def __len__(self) -> int:
        return len(self.tools)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Raw names in index order."""
        return tuple(tool.name for tool in self.tools)

    @cached_property
    def index(self) -> dict[str, int]:
        """Raw name -> tool index."""
        return {name: i for i, name in enumerate(self.names)}

    @cached_property
    def successors(self) -> tuple[np.ndarray, ...]:
        """For each tool the indices of its successors, int32, sorted."""
        lists: list[list[int]] = [[] for _ in self.tools]
        for source, target in self.edges:
            lists[self.index[source]].append(self.index[target])
        return tuple(np.array(sorted(targets), dtype=np.int32) for targets in lists)

    @cached_property
    def edge_set(self) -> frozenset[tuple[str, str]]:
        """The edges as a set of (from, to) names."""
        return frozenset(self.edges)

    @cached_property
    def graph(self) -> nx.DiGraph:
        """The tool graph over names; every tool is a node, in index order."""
        graph = nx.DiGraph()
        graph.add_nodes_from(self.names)
        graph.add_edges_from(self.edges)
        return graph

    def is_legal(self, plan: Sequence[str]) -> bool:
        """Whether all names are known and all adjacent pairs are edges. The empty plan is not."""
        known = all(name in self.index for name in plan)
        return len(plan) > 0 and known and all(pair in self.edge_set for pair in pairwise(plan))

    def to_json(self) -> dict[str, Any]:
        """The content of `catalog.json`; schemas that were not given are left out."""
        return {
            "tools": [_tool_record(tool) for tool in self.tools],
            "edges": [list(edge) for edge in self.edges],
        }

    def content_hash(self) -> str:
        """SHA-256 (hex) of the canonical JSON. Order of tools counts, order of edges does not."""
        content = {**self.to_json(), "edges": sorted(map(list, self.edges))}
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def with_tool(
        self, tool: Tool, predecessors: Iterable[str] = (), successors: Iterable[str] = ()
    ) -> "Catalog":
        """A catalog with `tool` as its last; a self-loop is the tool's own name among either.

        Raises:
          GraftError: as the catalog itself.
        """
        _check_tool(tool, len(self))
        new = [(name, tool.name) for name in predecessors]
        new += [(tool.name, name) for name in successors]
        for i, edge in enumerate(new, start=len(self.edges)):
            _check_edge(edge, i)
        return Catalog((*self.tools, tool), (*self.edges, *dict.fromkeys(new)))

    def without_tool(self, name: str) -> "Catalog":
        """A catalog without the tool and its edges; later tools move up by one index."""
        if name not in self.index:
            raise GraftError(f"there is no tool {name!r} to remove; see the catalog's names")
        tools = tuple(tool for tool in self.tools if tool.name != name)
        return Catalog(tools, tuple(edge for edge in self.edges if name not in edge))


def load_catalog(path: str | os.PathLike[str], report: list[str] | None = None) -> Catalog:
    """Reads `catalog.json`, whose form docs/data.md tells.

    Args:
      path: the file.
      report: takes one line for each kind of thing that was mended or is missing (edges that stood
        twice, tools without a description, unknown keys). When None the lines are logged.

    Raises:
      GraftError: naming the file, the record and a remedy.
    """
    notes: list[str] = [] if report is None else report
    start = len(notes)
    try:
        catalog = _parse(_read_json(path), notes)
    except GraftError as error:
        raise GraftError(f"{path}: {error}") from None
    notes[start:] = [f"{path}: {note}" for note in notes[start:]]
    if report is None:
        for note in notes:
            _log.warning(note)
    return catalog


def save_catalog(catalog: Catalog, path: str | os.PathLike[str]) -> None:
    """Writes `catalog.json`, one record a line; the file appears whole or not at all."""
    content = catalog.to_json()
    parts = {
        key: ",\n".join(json.dumps(record, ensure_ascii=False) for record in content[key])
        for key in ("tools", "edges")
    }
    text = f'{{"tools": [\n{parts["tools"]}\n], "edges": [\n{parts["edges"]}\n]}}\n'
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def check_writable(record: Any, where: str) -> None:
    """Refuses what a JSON file in UTF-8 cannot hold, though JSON's escapes or Python can.

    Raises:
      GraftError: half of a surrogate pair in any text of the record, or a value JSON has not.
    """
    try:
        json.dumps(record, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise GraftError(f"{where}: half of a surrogate pair in its text; remove it") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise GraftError(f"{where}: cannot be written as JSON ({error}); mend it") from None


def _tool_record(tool: Tool) -> dict[str, Any]:
    record: dict[str, Any] = {"name": tool.name, "description": tool.description}
    if tool.parameters is not None:
        record["parameters"] = tool.parameters
    if tool.outputs is not None:
        record["outputs"] = tool.outputs
    return record


def _read_json(path: str | os.PathLike[str]) -> Any:
    try:
        return json.loads(Path(path).read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise GraftError("no such file; check the path, or make or copy the folder again") from None
    except OSError as error:
        raise GraftError(f"cannot be read ({error.strerror}); give a readable file") from None
    except UnicodeDecodeError as error:
        raise GraftError(f"is not UTF-8 at byte {error.start}; save it as UTF-8") from None
    except json.JSONDecodeError as error:
        raise GraftError(
            f"line {error.lineno}, column {error.colno}: not JSON ({error.msg}); mend it there"
        ) from None
    except ValueError as error:  # an integer of thousands of digits
        raise GraftError(f"cannot be read as JSON ({error}); mend it") from None
    except RecursionError:
        raise GraftError("nests too deeply to be a catalog; flatten its schemas") from None


def _parse(data: Any, notes: list[str]) -> Catalog:
    """Catalog from decoded JSON; what was mended goes to `notes`, one line a kind."""
    if not isinstance(data, Mapping) or not isinstance(data.get("tools"), list):
        raise GraftError('has no list of tools; expected {"tools": [...], "edges": [...]}')
    edge_records = data.get("edges", [])
    if not isinstance(edge_records, list):
        raise GraftError("its edges are not a list; expected pairs [from, to]")
    tools = tuple(_parse_tool(record, i) for i, record in enumerate(data["tools"]))
    edges = [_parse_edge(record, i) for i, record in enumerate(edge_records)]
    counts = Counter(edges)
    catalog = Catalog(tools, tuple(counts))
    unknown = [key for key in data if key not in ("tools", "edges")]
    unknown += [key for record in data["tools"] for key in record if key not in _TOOL_KEYS]
    _note(notes, "unknown keys, left out", unknown)
    _note(notes, "tools without a description", [t.name for t in tools if not t.description])
    _note(notes, "names that differ only in case or punctuation", _look_alikes(catalog.names))
    _note(notes, "edges that stand twice, kept once", [list(e) for e in counts if counts[e] > 1])
    return catalog


def _parse_tool(record: Any, i: int) -> Tool:
    """The record as it stands, checked by the catalog that gets it; null is as good as missing."""
    if not isinstance(record, Mapping):
        raise GraftError(f"tool {i} is {_kind(record)}; expected an object with a name")
    fields = {key: record[key] for key in _TOOL_KEYS if record.get(key) is not None}
    return Tool(fields.pop("name", None), **fields)


def _parse_edge(record: Any, i: int) -> tuple[str, str]:
    edge = tuple(record) if isinstance(record, list) else record
    _check_edge(edge, i)
    return edge


def _check_tool(tool: Any, i: int) -> None:
    if not isinstance(tool, Tool):
        raise GraftError(f"tool {i} is {_kind(tool)}; expected a Tool(name, description)")
    if not isinstance(tool.name, str):
        raise GraftError(f"tool {i}: its name is {_kind(tool.name)}; expected a string")
    if not tool.name.strip():
        raise GraftError(f"tool {i}: its name is empty; give every tool a name")
    where = f"tool {i} ({tool.name!r:.100})"
    if not isinstance(tool.description, str):
        raise GraftError(
            f"{where}: its description is {_kind(tool.description)}; expected a string"
        )
    for key in ("parameters", "outputs"):
        schema = getattr(tool, key)
        if schema is not None and not isinstance(schema, dict):
            raise GraftError(
                f"{where}: its {key} are {_kind(schema)}; expected a JSON Schema object"
            )
    check_writable(_tool_record(tool), where)


def _check_edge(edge: Any, i: int) -> None:
    if not isinstance(edge, tuple) or len(edge) != 2:
        raise GraftError(f"edge {i} is {edge!r:.100}; expected a pair, from and to")
    if not all(isinstance(name, str) for name in edge):
        raise GraftError(f"edge {i} is {list(edge)!r:.100}; both ends must be names of tools")


def _look_alikes(names: Iterable[str]) -> list[list[str]]:
    """Groups of distinct names that a reader takes for the same: legal, but worth a line."""
    groups: dict[str, list[str]] = {}
    for name in names:
        letters = "".join(filter(str.isalnum, name)).casefold()
        if letters:
            groups.setdefault(letters, []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def _kind(value: Any) -> str:
    if value is None:
        return "missing or null"
    kinds = {dict: "an object", list: "a list", bool: "true or false", str: "a string"}
    kinds |= {int: "a number", float: "a number"}
    return kinds.get(type(value), f"a {type(value).__name__}")


def _note(notes: list[str], what: str, cases: Sequence[object]) -> None:
    if cases:
        notes.append(f"{what}: {len(cases)}, the first {cases[0]!r}")
