"""Published rows to plans: the order of a chain's tools, and step texts without tool names."""

import itertools
import re
from collections.abc import Collection, Sequence

Link = tuple[str, str]


class NotAChain(ValueError):
    """The row's links do not order its tools in one line; the text is the reason to count."""


def order_chain(
    tools: Sequence[str], links: Sequence[Link], inputs: Sequence[Collection[int]] = ()
) -> tuple[str, ...]:
    """The tools of a row in execution order.

    Published node lists are not always in execution order, links are; and a tool may occur twice,
    so links by name cannot simply be followed.

    Args:
      tools: the row's nodes, by tool name, in published order.
      links: (from, to) tool names, one a link.
      inputs: for each node the positions of the nodes whose output it takes, where the row says
        so; used only where a repeated tool makes the names ambiguous.

    Raises:
      NotAChain: with the reason.
    """
    if not tools:
        raise NotAChain("no tools")
    if list(links) == list(itertools.pairwise(tools)):
        return tuple(tools)
    if not links:
        raise NotAChain("several tools without links")
    if any(end not in tools for link in links for end in link):
        raise NotAChain("a link to a tool the row does not use")
    if len(set(tools)) == len(tools):
        position = {tool: i for i, tool in enumerate(tools)}
        arcs = [(position[a], position[b]) for a, b in links]
    else:
        arcs = [(k, j) for j, sources in enumerate(inputs) for k in sorted(sources)]
        if sorted((tools[a], tools[b]) for a, b in arcs if a < len(tools)) != sorted(links):
            raise NotAChain("a repeated tool whose place the links do not tell")
    return tuple(tools[i] for i in _walk(len(tools), arcs))


def _walk(size: int, arcs: Sequence[tuple[int, int]]) -> list[int]:
    """The one path through nodes 0…size-1 that uses each arc once and meets each node once."""
    successor = dict(arcs)
    starts = set(range(size)) - {b for _, b in arcs}
    if len(arcs) != size - 1 or len(successor) != len(arcs) or len(starts) != 1:
        raise NotAChain("links do not form a chain")
    path = [starts.pop()]
    while path[-1] in successor and len(path) <= size:
        path.append(successor[path[-1]])
    if sorted(path) != list(range(size)):
        raise NotAChain("links do not form a chain")
    return path


# "Step 2", "Step 2:", "2." and "2.1 Do this", but not the amount in "2 rooms" or "3.5 hours".
_NUMBER = re.compile(r"^\s*(?:[Ss]tep\s*\d+[:.)]?|\d+[.):](?!\d)|\d+\.\d+\s(?=\s*[A-Z]))\s*")
_CALL = re.compile(r"\b(?:call|use)\s+(\S+)\s+(?:again\s+)?(?:to|for)\s+", re.IGNORECASE)
_CALLED = re.compile(r"Call (\w+)")  # "Step 2Call x" occurs: no word boundary before it


def called_tool(step: str) -> str | None:
    """The X of a step's "Call X"; None where the step has none."""
    match = _CALLED.search(step)
    return match.group(1) if match else None


def subtask_text(step: str, names: Collection[str]) -> str:
    """A published step without its number and without "Call <tool> to".

    Only a known tool's name is taken for one ("Call the service at 12345678" stays), whether it is
    written with "_" or "-". May be empty.
    """

    def without_call(match: re.Match[str]) -> str:
        return "" if match.group(1).replace("-", "_") in known else match.group(0)

    known = {name.replace("-", "_") for name in names}
    return _CALL.sub(without_call, _NUMBER.sub("", step, count=1)).strip()
