"""From prediction records to scores with intervals, and the difference of two sets of scores.

A prediction record is a dict: `id`, `query`, `gold` and `predicted` (lists of tool names) always;
where the method has them also `log_prob`, `probabilities`, `runners_up`, `is_legal`,
`prompt_tokens`, `generated_tokens`, `truncated`, `seconds` (wall time of the query alone),
`batched_seconds` (its batch's wall time over the batch's size) and, under constrain=off,
`non_tool_tokens` (tokens that are neither a tool nor the end). Absent and None mean the same.

Knows the metrics of the protocol. Must not know planners, files or how records were made.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Protocol, get_args

import numpy as np

from graft_jax import metrics
from graft_jax.errors import GraftError
from graft_jax.evaluation.intervals import as_share, paired_share_interval, share_interval

Record = Mapping[str, Any]
Columns = dict[str, np.ndarray]
Edges = frozenset[tuple[str, str]]

# Metrics that are pooled over examples, Σ numerator / Σ denominator; all others are means.
POOLED = {
    "elr_pooled": ("legal_pairs", "pairs"),
    "hallucination": ("hallucinated_names", "names"),
    "token_hallucination": ("non_tool_tokens", "tokens"),
    "taskbench_node_f1": ("taskbench_node_hits", "taskbench_nodes"),
    "taskbench_link_f1": ("taskbench_link_hits", "taskbench_links"),
}
_COUNTS = frozenset({"length", *(column for pair in POOLED.values() for column in pair)})
_COSTS = ("prompt_tokens", "generated_tokens", "seconds", "batched_seconds")


class ToolGraph(Protocol):
    """What scoring needs of a catalog."""

    @property
    def names(self) -> Sequence[str]: ...
    @property
    def edge_set(self) -> Edges: ...


def score_predictions(
    records: Sequence[Record],
    catalog: ToolGraph,
    *,
    seed: int,
    short_plans: metrics.ShortPlans = "omit",
    groups: Mapping[str, Sequence[str]] | None = None,
    graphs: Mapping[str, Edges] | None = None,
) -> dict[str, Any]:
    """Every metric of the protocol with its interval, over all records and by slices of them.

    Args:
      records: prediction records, ids distinct.
      catalog: its names are the pool, its edges the legal pairs.
      seed: of the bootstrap.
      short_plans: how ELR counts plans shorter than two: "omit", "legal" or "illegal".
      groups: further slices by name, each a list of ids of `records`.
      graphs: further edge sets by name; each adds a metric `elr_<name>`.

    Returns:
      JSON-ready: `all`, `by_length` (of gold) and `groups` hold slices `{"examples",
      "short_plans", "metrics": {name: {"value", "low", "high", "count"}}}`; `cost` holds mean,
      median and p95 of tokens and seconds; `per_example` holds the columns behind the metrics, in
      the records' order, which is what `compare` reads.

    Raises:
      GraftError: no records, a record without one of its fields, an id that stands twice, a group
        with an id that has no record, an unknown `short_plans`.
    """
    ids = _checked_ids(records)
    choices = get_args(metrics.ShortPlans)
    if short_plans not in choices:
        raise GraftError(f"short_plans is {short_plans!r}; choose one of {', '.join(choices)}")
    columns = _columns(records, catalog, short_plans, graphs or {})
    rows_of = {identity: row for row, identity in enumerate(ids)}
    group_rows = {}
    for name, members in (groups or {}).items():
        unknown = [member for member in members if member not in rows_of]
        if unknown:
            raise GraftError(
                f"group {name!r}: id {unknown[0]!r} has no prediction ({len(unknown)} such ids); "
                "make groups from the split that was scored"
            )
        group_rows[name] = np.array([rows_of[member] for member in members], dtype=np.int64)
    lengths = columns["length"]
    every = np.arange(len(ids))
    return {
        "seed": seed,
        "short_plans": short_plans,
        "all": _slice(columns, every, seed),
        "by_length": {
            str(int(length)): _slice(columns, np.flatnonzero(lengths == length), seed)
            for length in np.unique(lengths)
        },
        "groups": {name: _slice(columns, rows, seed) for name, rows in group_rows.items()},
        "group_ids": {name: list(members) for name, members in (groups or {}).items()},
        "cost": _cost(records),
        "per_example": {"id": ids, **{name: _to_json(column) for name, column in columns.items()}},
    }


def compare(scores_a: Mapping[str, Any], scores_b: Mapping[str, Any]) -> dict[str, Any]:
    """Paired differences a - b of every metric both have, overall, by length and by shared group.

    Returns:
      Slices as in `score_predictions`; each metric is `{"a", "b", "value" (the difference), "low",
      "high", "count", "verdict"}`. The verdict is from a's side: "better" or "worse" where the
      interval leaves out 0, else "unclear". `only_a` and `only_b` list the ids that one alone gets
      right.

    Raises:
      GraftError: the two do not stand on the same ids with the same gold lengths.
    """
    ids = list(scores_a["per_example"]["id"])
    a, b = _from_json(scores_a["per_example"], ids), _from_json(scores_b["per_example"], ids)
    if not np.array_equal(a["length"], b["length"]):
        odd = ids[int(np.flatnonzero(a["length"] != b["length"])[0])]
        raise GraftError(
            f"id {odd!r}: the two score sets have gold plans of different length; "
            "score both on the same data"
        )
    seed = int(scores_a["seed"])
    rows_of = {identity: row for row, identity in enumerate(ids)}
    shared = [
        name
        for name, members in scores_a.get("group_ids", {}).items()
        if set(members) == set(scores_b.get("group_ids", {}).get(name, []))
    ]
    right_a, right_b = a["em"] == 1, b["em"] == 1
    return {
        "examples": len(ids),
        "all": _differences(a, b, np.arange(len(ids)), seed),
        "by_length": {
            str(int(length)): _differences(a, b, np.flatnonzero(a["length"] == length), seed)
            for length in np.unique(a["length"])
        },
        "groups": {
            name: _differences(
                a, b, np.array([rows_of[i] for i in scores_a["group_ids"][name]], np.int64), seed
            )
            for name in shared
        },
        "only_a": [ids[row] for row in np.flatnonzero(right_a & ~right_b)],
        "only_b": [ids[row] for row in np.flatnonzero(right_b & ~right_a)],
    }


def lower_is_better(metric: str) -> bool:
    """True of distances and hallucination, whatever their variant."""
    return metric == "ned" or "hallucinat" in metric


def _checked_ids(records: Sequence[Record]) -> list[str]:
    if not records:
        raise GraftError("there are no predictions to score; plan at least one example first")
    seen: set[str] = set()
    for row, record in enumerate(records):
        missing = [key for key in ("id", "query", "gold", "predicted") if record.get(key) is None]
        if missing:
            raise GraftError(
                f"prediction {row} (id {record.get('id')!r}): no {missing[0]!r}; "
                "a record has id, query, gold and predicted"
            )
        if record["id"] in seen:
            raise GraftError(
                f"prediction {row}: id {record['id']!r} stands twice; predict each example once"
            )
        seen.add(record["id"])
    return [record["id"] for record in records]


def _columns(
    records: Sequence[Record],
    catalog: ToolGraph,
    short_plans: metrics.ShortPlans,
    graphs: Mapping[str, Edges],
) -> Columns:
    """One number a record for every metric, and the counts behind the pooled ones."""
    predictions = [tuple(record["predicted"]) for record in records]
    golds = [tuple(record["gold"]) for record in records]
    pool = frozenset(catalog.names)
    columns: dict[str, Any] = {
        "length": [len(gold) for gold in golds],
        **metrics.per_example(predictions, golds, catalog.edge_set, pool, short_plans=short_plans),
        **_peer_columns(predictions, golds, catalog.edge_set, pool),
        **_token_columns(records),
    }
    for name, edges in graphs.items():
        columns[f"elr_{name}"] = [
            metrics.edge_legality(plan, edges, pool, short_plans) for plan in predictions
        ]
    return {name: np.asarray(column, dtype=np.float64) for name, column in columns.items()}


def _peer_columns(
    predictions: Sequence[tuple[str, ...]],
    golds: Sequence[tuple[str, ...]],
    edges: Edges,
    pool: frozenset[str],
) -> dict[str, list[float]]:
    """`metrics.peer_scores` example by example, so that it gets intervals."""
    columns: dict[str, list[float]] = {}
    for plan, gold in zip(predictions, golds, strict=True):
        links, gold_links = list(pairwise(plan)), list(pairwise(gold))
        node_sets = set(plan) & pool, set(gold) & pool
        link_sets = set(links), set(gold_links)
        outside = metrics.hallucinated_names(plan, pool) / max(len(plan), 1)
        odd_links = metrics.hallucinated_names(links, edges) / max(len(links), 1)
        row: dict[str, float] = {
            "taskbench_node_hits": 2 * len(node_sets[0] & node_sets[1]),
            "taskbench_nodes": len(node_sets[0]) + len(node_sets[1]),
            "taskbench_link_hits": 2 * len(link_sets[0] & link_sets[1]),
            "taskbench_links": len(link_sets[0]) + len(link_sets[1]),
            "gnn4plan_node_f1": metrics.gnn4plan_f1(plan, gold),
            "gnn4plan_link_f1": metrics.gnn4plan_f1(links, gold_links),
            "gnn4plan_accuracy": metrics.gnn4plan_accuracy(plan, gold),
            "gnn4plan_node_hallucination_item": outside,
            "gnn4plan_node_hallucination_sample": outside > 0,
            "gnn4plan_link_hallucination_item": odd_links,
            "gnn4plan_link_hallucination_sample": odd_links > 0,
        }
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
    return columns


def _token_columns(records: Sequence[Record]) -> dict[str, list[float]]:
    """Hallucination by tokens, for the records that were generated under constrain=off."""
    columns: dict[str, list[float]] = {}
    for record in records:
        stray, tokens = record.get("non_tool_tokens"), record.get("generated_tokens")
        if stray is None:  # another decoding rule: outside the count
            stray, tokens, plan = 0, 0, np.nan
        elif tokens is None:
            raise GraftError(
                f"prediction with id {record['id']!r}: has non_tool_tokens but no "
                "generated_tokens; record both"
            )
        else:
            plan = float(stray > 0)
        row = {"non_tool_tokens": stray, "tokens": tokens, "token_hallucinated_plans": plan}
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
    return columns if any(columns["tokens"]) else {}


def _cost(records: Sequence[Record]) -> dict[str, Any]:
    """Mean, median and 95th percentile of what is recorded, and how many queries were cut."""
    cost: dict[str, Any] = {"truncated": sum(bool(r.get("truncated")) for r in records)}
    for name in _COSTS:
        values = [r[name] for r in records if r.get(name) is not None]
        if values:
            cost[name] = {
                "mean": float(np.mean(values)),
                "median": float(np.median(values)),
                "p95": float(np.quantile(values, 0.95)),
                "count": len(values),
            }
    return cost


def _metric_names(columns: Mapping[str, np.ndarray]) -> list[str]:
    means = [name for name in columns if name not in _COUNTS]
    return means + [name for name, pair in POOLED.items() if all(c in columns for c in pair)]


def _share_of(columns: Columns, name: str, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if name in POOLED:
        top, bottom = POOLED[name]
        return columns[top][rows], columns[bottom][rows]
    return as_share(columns[name][rows])


def _slice(columns: Columns, rows: np.ndarray, seed: int) -> dict[str, Any]:
    return {
        "examples": len(rows),
        "short_plans": int((columns["pairs"][rows] == 0).sum()),
        "metrics": {
            name: dataclasses.asdict(share_interval(*_share_of(columns, name, rows), seed=seed))
            for name in _metric_names(columns)
        },
    }


def _differences(a: Columns, b: Columns, rows: np.ndarray, seed: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    in_b = set(_metric_names(b))
    for name in (name for name in _metric_names(a) if name in in_b):
        share_a, share_b = _share_of(a, name, rows), _share_of(b, name, rows)
        interval = paired_share_interval(share_a, share_b, seed=seed)
        found[name] = {
            "a": _total(share_a),
            "b": _total(share_b),
            **dataclasses.asdict(interval),
            "verdict": _verdict(name, interval.low, interval.high),
        }
    return {"examples": len(rows), "metrics": found}


def _total(share: tuple[np.ndarray, np.ndarray]) -> float | None:
    return float(share[0].sum() / share[1].sum()) if share[1].sum() else None


def _verdict(name: str, low: float | None, high: float | None) -> str:
    # Rounding alone must not tell two methods apart.
    if low is None or high is None or (low <= 1e-12 and high >= -1e-12):
        return "unclear"
    return "better" if (low > 0) != lower_is_better(name) else "worse"


def _to_json(column: np.ndarray) -> list[float | int | None]:
    """nan as null, whole numbers as integers (a quarter of the file's size)."""
    return [None if np.isnan(x) else int(x) if x.is_integer() else x for x in map(float, column)]


def _from_json(per_example: Mapping[str, Any], ids: Sequence[str]) -> Columns:
    """Columns in the order of `ids`."""
    row_of = {identity: row for row, identity in enumerate(per_example["id"])}
    odd = set(ids) ^ set(row_of)
    if odd:
        raise GraftError(
            f"the two score sets differ in {len(odd)} ids, among them {min(odd)!r}; "
            "score both on the same rows"
        )
    rows = [row_of[identity] for identity in ids]
    return {
        name: np.array(column, dtype=np.float64)[rows]
        for name, column in per_example.items()
        if name != "id"
    }
