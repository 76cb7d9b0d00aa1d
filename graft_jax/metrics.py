"""How good predicted plans are: the paper's metrics (Eqs. 14-18), and those that its peers publish.

Plans are sequences of raw tool names. Every metric is first a function of one example; what is
undefined there is nan, and a mean over nothing is None, never 0. Must not know where plans come
from, and draws no intervals: `per_example` gives the arrays for them.
"""

import math
from collections.abc import Hashable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

Plan = Sequence[str]
Edges = Set[tuple[str, str]]
ShortPlans = Literal["omit", "legal", "illegal"]


def exact_match(prediction: Plan, gold: Plan) -> float:
    """Eq. 14: 1 where the two are the same tools in the same order."""
    return float(list(prediction) == list(gold))


def edge_legality(
    plan: Plan, edges: Edges, pool: Set[str], short_plans: ShortPlans = "omit"
) -> float:
    """Eq. 15: the share of adjacent pairs that are edges; a name outside the pool makes none.

    A plan shorter than two has no pair: nan under "omit", 1 under "legal", 0 under "illegal".
    """
    legal = legal_pairs(plan, edges, pool)
    if legal:
        return sum(legal) / len(legal)
    return {"omit": math.nan, "legal": 1.0, "illegal": 0.0}[short_plans]


def legal_pairs(plan: Plan, edges: Edges, pool: Set[str]) -> list[bool]:
    """For each adjacent pair of the plan whether it is an edge between tools of the pool."""
    return [a in pool and b in pool and (a, b) in edges for a, b in pairwise(plan)]


def correct_prefix_length(prediction: Plan, gold: Plan) -> int:
    """Eq. 16: c, the number of tools before the first that differs; its mean is ACPL."""
    same = (a == b for a, b in zip(prediction, gold, strict=False))
    return next((k for k, ok in enumerate(same) if not ok), min(len(prediction), len(gold)))


def tool_f1(prediction: Plan, gold: Plan) -> float:
    """Harmonic mean of precision and recall of the two sets of tools; both empty 1, one empty 0."""
    predicted, wanted = set(prediction), set(gold)
    if not predicted and not wanted:
        return 1.0
    return 2 * len(predicted & wanted) / (len(predicted) + len(wanted))


def edit_distance(prediction: Plan, gold: Plan) -> int:
    """Levenshtein distance over tools: insertions, deletions, substitutions, each at cost one."""
    row = list(range(len(gold) + 1))
    for i, a in enumerate(prediction, start=1):
        above, row = row, [i]
        for j, b in enumerate(gold, start=1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (a != b)))
    return row[-1]


def normalized_edit_distance(prediction: Plan, gold: Plan) -> float:
    """Eq. 17: edit distance over the longer length; two empty plans are at distance 0."""
    return edit_distance(prediction, gold) / max(len(prediction), len(gold), 1)


def prefix_accuracy(prediction: Plan, gold: Plan, k: int) -> float:
    """Eq. 18: whether the first k tools are right; nan where the gold plan is shorter than k."""
    if len(gold) < k:
        return math.nan
    return float(correct_prefix_length(prediction, gold) >= k)


def hallucinated_names(plan: Sequence[Hashable], pool: Set) -> int:
    """Number of the plan's names (or links) that are not in the pool."""
    return sum(name not in pool for name in plan)


def hallucination(plans: Sequence[Plan], pool: Set[str]) -> tuple[float | None, float | None]:
    """Names outside the pool over all names predicted; share of plans with such a name."""
    outside = [hallucinated_names(plan, pool) for plan in plans]
    names = sum(len(plan) for plan in plans)
    return _ratio(sum(outside), names), _ratio(sum(n > 0 for n in outside), len(plans))


def per_example(
    predictions: Sequence[Plan],
    golds: Sequence[Plan],
    edges: Edges,
    pool: Set[str],
    *,
    short_plans: ShortPlans = "omit",
    prefix_lengths: Sequence[int] = (1, 3),
) -> dict[str, np.ndarray]:
    """Every metric example by example: float64 [N] each, nan where it is undefined.

    em, elr, acpl, tool_f1, ned, pa@K and hallucinated_plans have the mean over defined examples as
    their score. The counts give ratios of sums: hallucination is hallucinated_names over names,
    elr_pooled is legal_pairs over pairs.

    Raises:
      ValueError: the numbers of predictions and gold plans differ.
    """
    if len(predictions) != len(golds):
        raise ValueError(f"{len(predictions)} predictions for {len(golds)} gold plans")
    both = list(zip(predictions, golds, strict=True))
    legal = [legal_pairs(plan, edges, pool) for plan in predictions]
    outside = [hallucinated_names(plan, pool) for plan in predictions]
    columns: dict[str, Sequence[float]] = {
        "em": [exact_match(*pair) for pair in both],
        "elr": [edge_legality(plan, edges, pool, short_plans) for plan in predictions],
        "acpl": [correct_prefix_length(*pair) for pair in both],
        "tool_f1": [tool_f1(*pair) for pair in both],
        "ned": [normalized_edit_distance(*pair) for pair in both],
        **{f"pa@{k}": [prefix_accuracy(*pair, k) for pair in both] for k in prefix_lengths},
        "hallucinated_plans": [n > 0 for n in outside],
        "hallucinated_names": outside,
        "names": [len(plan) for plan in predictions],
        "legal_pairs": [sum(pairs) for pairs in legal],
        "pairs": [len(pairs) for pairs in legal],
    }
    return {name: np.array(values, dtype=np.float64) for name, values in columns.items()}


def score(
    predictions: Sequence[Plan],
    golds: Sequence[Plan],
    edges: Edges,
    pool: Set[str],
    *,
    short_plans: ShortPlans = "omit",
    prefix_lengths: Sequence[int] = (1, 3),
) -> dict[str, float | int | None]:
    """All metrics of the paper over a set of examples; shares in [0, 1], acpl in tools.

    Keys: examples, em, elr, elr_undefined (plans shorter than two: outside the mean under "omit"),
    elr_pooled, acpl, tool_f1, ned, pa@K, hallucination (of names), hallucinated_plans. A metric
    that no example defines is None.

    Raises:
      ValueError: the numbers of predictions and gold plans differ.
    """
    columns = per_example(
        predictions,
        golds,
        edges,
        pool,
        short_plans=short_plans,
        prefix_lengths=prefix_lengths,
    )
    counts = {"hallucinated_names", "names", "legal_pairs", "pairs"}
    totals = {name: columns[name].sum() for name in counts}
    return {
        "examples": len(golds),
        **{name: _mean(column) for name, column in columns.items() if name not in counts},
        "elr_undefined": int((columns["pairs"] == 0).sum()),
        "elr_pooled": _ratio(totals["legal_pairs"], totals["pairs"]),
        "hallucination": _ratio(totals["hallucinated_names"], totals["names"]),
    }


# What the peers publish, named apart: their definitions differ from the paper's and each other's.


@dataclass(frozen=True)
class PlanGraph:
    """A plan as the peers compare it: its tools in any order, and its links."""

    nodes: tuple[str, ...]
    links: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, plan: Plan) -> "PlanGraph":
        """The graph of an ordered plan: its adjacent pairs are its links."""
        return cls(tuple(plan), tuple(pairwise(plan)))


def taskbench_f1(
    predictions: Sequence[Sequence[Hashable]],
    golds: Sequence[Sequence[Hashable]],
    pool: Set | None = None,
) -> float | None:
    """TaskBench's F1: of each example's sets, pooled over examples before precision and recall.

    Node F1 takes the tools as `pool`, and what is outside falls out of the count. Link F1 takes
    none. None where nothing is left to count.
    """
    hits = predicted = wanted = 0
    for prediction, gold in zip(predictions, golds, strict=True):
        a, b = set(prediction), set(gold)
        if pool is not None:
            a, b = a & pool, b & pool
        hits, predicted, wanted = hits + len(a & b), predicted + len(a), wanted + len(b)
    return _ratio(2 * hits, predicted + wanted)


def gnn4plan_f1(prediction: Sequence[Hashable], gold: Sequence[Hashable]) -> float:
    """GNN4Plan's F1 of one example: repeats count in the lengths but not in the intersection.

    An empty side, prediction or gold, gives 0.
    """
    if not prediction or not gold:
        return 0.0
    return 2 * len(set(prediction) & set(gold)) / (len(prediction) + len(gold))


def gnn4plan_accuracy(prediction: Plan, gold: Plan) -> float:
    """GNN4Plan's accuracy of one example: node F1 of at least 0.99, order ignored."""
    return float(gnn4plan_f1(prediction, gold) >= 0.99)


def gnn4plan_hallucination(
    samples: Sequence[Sequence[Hashable]], valid: Set
) -> tuple[float | None, float | None]:
    """GNN4Plan's NH-1 and NH-2 over tools, LH-1 and LH-2 over links.

    The first is the mean over samples of the share of a sample's items that are not valid, the
    second the share of samples with such an item. A sample without items has none.
    """
    shares = [hallucinated_names(items, valid) / max(len(items), 1) for items in samples]
    return _ratio(sum(shares), len(samples)), _ratio(sum(s > 0 for s in shares), len(samples))


def peer_scores(
    predictions: Sequence[PlanGraph], golds: Sequence[PlanGraph], edges: Edges, pool: Set[str]
) -> Mapping[str, Mapping[str, float | None]]:
    """The peers' metrics, {"taskbench": {...}, "gnn4plan": {...}}; shares in [0, 1]."""
    nodes, links = [g.nodes for g in predictions], [g.links for g in predictions]
    gold_nodes, gold_links = [g.nodes for g in golds], [g.links for g in golds]
    node_pairs = list(zip(nodes, gold_nodes, strict=True))
    link_pairs = list(zip(links, gold_links, strict=True))
    nh = gnn4plan_hallucination(nodes, pool)
    lh = gnn4plan_hallucination(links, edges)
    return {
        "taskbench": {
            "node_f1": taskbench_f1(nodes, gold_nodes, pool),
            "link_f1": taskbench_f1(links, gold_links),
        },
        "gnn4plan": {
            "node_f1": _ratio(sum(gnn4plan_f1(*pair) for pair in node_pairs), len(node_pairs)),
            "link_f1": _ratio(sum(gnn4plan_f1(*pair) for pair in link_pairs), len(link_pairs)),
            "accuracy": _ratio(sum(gnn4plan_accuracy(*p) for p in node_pairs), len(node_pairs)),
            "node_hallucination_item": nh[0],
            "node_hallucination_sample": nh[1],
            "link_hallucination_item": lh[0],
            "link_hallucination_sample": lh[1],
        },
    }


def _mean(values: np.ndarray) -> float | None:
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if defined.size else None


def _ratio(part: float, whole: float) -> float | None:
    return float(part / whole) if whole else None
