"""What kind of mistakes a set of predictions makes, and whether its probabilities can be believed.

Works on prediction records (see `scores`). Knows no metric of the protocol and draws nothing.
"""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graft_jax.evaluation.intervals import Interval, mean_interval

END = "(end of plan)"
BINS = 10
Record = Mapping[str, Any]


def first_errors(records: Sequence[Record]) -> list[tuple[str, str, int]]:
    """(gold tool, predicted tool, count) where a plan first leaves its gold plan, commonest first.

    `END` stands for the end of a plan: (X, END) stopped before X, (END, X) went on with X. Ties
    are in order of names.
    """
    pairs: Counter[tuple[str, str]] = Counter()
    for record in records:
        gold, predicted = [*record["gold"], END], [*record["predicted"], END]
        pair = next((p for p in zip(gold, predicted, strict=False) if p[0] != p[1]), None)
        if pair is not None:
            pairs[pair] += 1
    ranked = sorted(pairs.items(), key=lambda item: (-item[1], item[0]))
    return [(gold, predicted, count) for (gold, predicted), count in ranked]


def error_kinds(records: Sequence[Record]) -> dict[str, int]:
    """Counts of plans by how they differ from gold; every record falls under one kind."""
    kinds = dict.fromkeys(
        ("right", "stopped early", "went on", "right tools, other order", "one tool wrong", "else"),
        0,
    )
    for record in records:
        kinds[_kind(list(record["gold"]), list(record["predicted"]))] += 1
    return kinds


def _kind(gold: list[str], predicted: list[str]) -> str:
    if predicted == gold:
        return "right"
    if predicted == gold[: len(predicted)]:
        return "stopped early"
    if predicted[: len(gold)] == gold:
        return "went on"
    if sorted(predicted) == sorted(gold):
        return "right tools, other order"
    if len(predicted) == len(gold) and sum(map(str.__ne__, predicted, gold)) == 1:
        return "one tool wrong"
    return "else"


@dataclasses.dataclass(frozen=True)
class Bin:
    """Plans whose probability lies in [low, high): their mean probability and share right."""

    low: float
    high: float
    probability: float | None
    right: Interval


@dataclasses.dataclass(frozen=True)
class Reliability:
    """Calibration of plan probabilities over `count` plans.

    `error` is the expected calibration error of Naeini et al. (2015): Σ_bins n_b / n |right_b -
    probability_b|, equal-width bins.
    """

    bins: tuple[Bin, ...]
    error: float
    count: int


def reliability(records: Sequence[Record], *, seed: int, bins: int = BINS) -> Reliability | None:
    """How often plans are right beside how probable the planner calls them, exp(`log_prob`).

    Records without a `log_prob` (peers) are left out; None where no record has one.
    """
    scored = [record for record in records if record.get("log_prob") is not None]
    if not scored:
        return None
    probability = np.exp([record["log_prob"] for record in scored])
    right = np.array([list(r["predicted"]) == list(r["gold"]) for r in scored], dtype=np.float64)
    # The last bin is closed: a probability of 1 belongs to it.
    places = np.minimum((probability * bins).astype(int), bins - 1)
    rows: list[Bin] = []
    error = 0.0
    for place in range(bins):
        inside = places == place
        mean = float(probability[inside].mean()) if inside.any() else None
        rows.append(
            Bin(place / bins, (place + 1) / bins, mean, mean_interval(right[inside], seed=seed))
        )
        if mean is not None:
            error += inside.mean() * abs(right[inside].mean() - mean)
    return Reliability(tuple(rows), float(error), len(scored))
