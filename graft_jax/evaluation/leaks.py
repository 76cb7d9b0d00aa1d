"""The leak audit: what a data set's test split shares with its training split.

Pure counting over examples; reads and writes nothing, knows no planner. `data_prep` prints the
result and stores it in the data folder's manifest.
"""

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from graft_jax.catalog.catalog import Catalog
from graft_jax.data.examples import Example

Edge = tuple[str, str]


def audit(
    splits: Mapping[str, Sequence[Example]],
    catalog: Catalog,
    raw_subtasks: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, Any]:
    """Counts what a reader must know before believing a score.

    Args:
      splits: examples by split; "train" and "test" must be there.
      catalog: tells which test edges the tool graph lacks.
      raw_subtasks: example id -> its subtasks as published, one a tool, before names were taken
        out of them; examples that are not in it are not counted.

    Returns:
      A dict of plain numbers, ready for JSON. `{"count", "of", "share"}` stands wherever a share is
      meant; a share of nothing is None. Keys:
        test_plans_seen_in_train: test examples whose whole plan is some training example's;
        test_edges_unseen_in_train: distinct adjacent pairs of test plans in no training plan;
        test_plans_with_unseen_edge: test examples that hold such a pair;
        test_edges_outside_graph, test_plans_outside_graph: the same against the catalog's edges;
        subtasks_naming_tool: subtasks of aligned examples that hold their tool's name as it stands;
        subtasks_spelling_tool: the same with the name's parts as words ("send email");
        raw_subtasks_naming_tool: the former over `raw_subtasks`, None without them;
        duplicate_queries: distinct normalised queries in two splits at once, by pair of splits;
        test_queries_seen_in_train: test examples whose normalised query is a training example's.
    """
    train, test = splits["train"], splits["test"]
    train_plans = {example.tools for example in train}
    train_edges = set(itertools.chain.from_iterable(_edges(plan) for plan in train_plans))
    test_edges = set(itertools.chain.from_iterable(_edges(example.tools) for example in test))
    queries = {name: {normalise(e.query) for e in examples} for name, examples in splits.items()}
    everything = list(itertools.chain.from_iterable(splits.values()))
    pairs = [
        pair for e in everything if e.aligned for pair in zip(e.subtasks, e.tools, strict=True)
    ]
    raw = None
    if raw_subtasks is not None:
        raw = [
            pair
            for e in everything
            if len(raw_subtasks.get(e.id, ())) == len(e.tools)
            for pair in zip(raw_subtasks[e.id], e.tools, strict=True)
        ]
    return {
        "test_plans_seen_in_train": _share(e.tools in train_plans for e in test),
        "test_edges_unseen_in_train": _share(edge not in train_edges for edge in test_edges),
        "test_plans_with_unseen_edge": _share(
            not train_edges.issuperset(_edges(e.tools)) for e in test
        ),
        "test_edges_outside_graph": _share(edge not in catalog.edge_set for edge in test_edges),
        "test_plans_outside_graph": _share(
            not catalog.edge_set.issuperset(_edges(e.tools)) for e in test
        ),
        "subtasks_naming_tool": _share(names_tool(text, tool) for text, tool in pairs),
        "subtasks_spelling_tool": _share(spells_tool(text, tool) for text, tool in pairs),
        "raw_subtasks_naming_tool": None if raw is None else _share(names_tool(*p) for p in raw),
        "duplicate_queries": {
            f"{a}, {b}": len(queries[a] & queries[b]) for a, b in itertools.combinations(splits, 2)
        },
        "test_queries_seen_in_train": _share(normalise(e.query) in queries["train"] for e in test),
    }


def normalise(text: str) -> str:
    """Case-folded words with single blanks between: what counts as the same query."""
    return " ".join(re.findall(r"[^\W_]+", text.casefold()))


def names_tool(text: str, tool: str) -> bool:
    """True where `text` holds the tool's name as it stands, as a whole word, in any case."""
    return re.search(rf"(?<!\w){re.escape(tool)}(?!\w)", text, re.IGNORECASE) is not None


def spells_tool(text: str, tool: str) -> bool:
    """True where `text` holds the parts of the tool's name as consecutive words."""
    name = normalise(tool)
    return bool(name) and f" {name} " in f" {normalise(text)} "


def _edges(plan: Sequence[str]) -> list[Edge]:
    return list(itertools.pairwise(plan))


def _share(hits: Iterable[bool]) -> dict[str, Any]:
    flags = list(hits)
    count = sum(flags)
    return {"count": count, "of": len(flags), "share": count / len(flags) if flags else None}
