"""Every metric by hand-computed cases, its edge cases among them."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graft_jax import metrics
from graft_jax.metrics import PlanGraph

POOL = frozenset("abcde")
EDGES = frozenset({("a", "b"), ("b", "c"), ("c", "c"), ("c", "x")})
plans = st.lists(st.sampled_from("abcx"), max_size=6)


@pytest.mark.parametrize(
    ("prediction", "gold", "em", "prefix", "f1", "distance"),
    [
        ("abc", "abc", 1, 3, 1, 0),
        ("abc", "abd", 0, 2, 2 / 3, 1 / 3),
        ("acb", "abc", 0, 1, 1, 2 / 3),
        ("ab", "abc", 0, 2, 4 / 5, 1 / 3),
        ("abcd", "abc", 0, 3, 6 / 7, 1 / 4),
        ("bc", "abc", 0, 0, 4 / 5, 1 / 3),
        ("aab", "ab", 0, 1, 1, 1 / 3),
        ("de", "abc", 0, 0, 0, 1),
        ("", "ab", 0, 0, 0, 1),
        ("ab", "", 0, 0, 0, 1),
        ("", "", 1, 0, 1, 0),
    ],
)
def test_agreement_of_prediction_and_gold(prediction, gold, em, prefix, f1, distance):
    assert metrics.exact_match(tuple(prediction), list(gold)) == em
    assert metrics.correct_prefix_length(prediction, gold) == prefix
    assert metrics.tool_f1(prediction, gold) == pytest.approx(f1)
    assert metrics.normalized_edit_distance(prediction, gold) == pytest.approx(distance)


@settings(deadline=None)
@given(plans, plans, plans)
def test_edit_distance_is_a_metric(a, b, c):
    assert metrics.edit_distance(a, b) == metrics.edit_distance(b, a)
    assert (metrics.edit_distance(a, b) == 0) == (a == b)
    assert abs(len(a) - len(b)) <= metrics.edit_distance(a, b) <= max(len(a), len(b))
    both = metrics.edit_distance(a, b) + metrics.edit_distance(b, c)
    assert metrics.edit_distance(a, c) <= both


@pytest.mark.parametrize(
    ("prediction", "gold", "k", "expected"),
    [
        ("abc", "abd", 1, 1),
        ("abc", "abd", 2, 1),
        ("abc", "abd", 3, 0),
        ("ab", "abc", 3, 0),
        ("abc", "ab", 3, math.nan),
        ("", "ab", 1, 0),
    ],
)
def test_prefix_accuracy_is_undefined_beyond_the_gold_plan(prediction, gold, k, expected):
    assert metrics.prefix_accuracy(prediction, gold, k) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(
    ("plan", "legality"),
    [
        ("abc", 1),
        ("ab", 1),
        ("ba", 0),
        ("abcc", 1),
        ("abcx", 2 / 3),  # (c, x) is among the edges, but x is no tool of the pool
        ("aacb", 0),
        ("a", math.nan),
        ("x", math.nan),
        ("", math.nan),
    ],
)
def test_edge_legality(plan, legality):
    assert metrics.edge_legality(plan, EDGES, POOL) == pytest.approx(legality, nan_ok=True)


def test_short_plans_count_as_asked():
    values = [metrics.edge_legality("a", EDGES, POOL, rule) for rule in ("legal", "illegal")]
    assert values == [1, 0]
    golds = ["ab"] * 4
    predictions = ["abc", "ba", "a", ""]
    by_rule = {
        rule: metrics.score(predictions, golds, EDGES, POOL, short_plans=rule)
        for rule in ("omit", "legal", "illegal")
    }
    assert [by_rule[rule]["elr"] for rule in by_rule] == [1 / 2, 3 / 4, 1 / 4]
    assert [by_rule[rule]["elr_undefined"] for rule in by_rule] == [2, 2, 2]
    assert [by_rule[rule]["elr_pooled"] for rule in by_rule] == [2 / 3] * 3


def test_pooled_edge_legality_counts_pairs_not_plans():
    plans = ["abcc", "ba", "a"]
    assert metrics.score(plans, plans, EDGES, POOL)["elr_pooled"] == 3 / 4


def test_hallucination_over_names_and_over_plans():
    assert metrics.hallucination(["abx", "xx", "a", ""], POOL) == (3 / 6, 2 / 4)
    assert metrics.hallucination([""], POOL) == (None, 0)
    assert metrics.hallucination([], POOL) == (None, None)


def test_score_of_a_small_set():
    predictions, golds = ["abc", "ab", "cx", "d"], ["abc", "abc", "bc", "d"]
    assert metrics.score(predictions, golds, EDGES, POOL, prefix_lengths=(1, 3)) == {
        "examples": 4,
        "em": 2 / 4,
        "elr": pytest.approx((1 + 1 + 0) / 3),
        "elr_undefined": 1,
        "elr_pooled": 3 / 4,
        "acpl": (3 + 2 + 0 + 1) / 4,
        "tool_f1": pytest.approx((1 + 4 / 5 + 1 / 2 + 1) / 4),
        "ned": pytest.approx((0 + 1 / 3 + 1 + 0) / 4),
        "pa@1": 3 / 4,
        "pa@3": 1 / 2,
        "hallucination": 1 / 8,
        "hallucinated_plans": 1 / 4,
    }


def test_an_empty_denominator_is_none_and_never_zero():
    some = metrics.score(["a", "b"], ["a", "b"], EDGES, POOL)
    assert (some["elr"], some["elr_pooled"], some["pa@3"]) == (None, None, None)
    none = metrics.score([], [], EDGES, POOL)
    assert none.pop("examples") == none.pop("elr_undefined") == 0
    assert set(none.values()) == {None}


@settings(deadline=None)
@given(st.lists(st.tuples(plans, plans), max_size=8))
def test_scores_are_the_means_of_what_is_defined_example_by_example(pairs):
    predictions, golds = [p for p, _ in pairs], [g for _, g in pairs]
    columns = metrics.per_example(predictions, golds, EDGES, POOL)
    scores = metrics.score(predictions, golds, EDGES, POOL)
    for name in ("em", "elr", "acpl", "tool_f1", "ned", "pa@1", "pa@3", "hallucinated_plans"):
        assert columns[name].shape == (len(pairs),)
        defined = columns[name][~np.isnan(columns[name])]
        assert scores[name] == (pytest.approx(defined.mean()) if defined.size else None)
    names, wrong = metrics.hallucination(predictions, POOL)
    assert (scores["hallucination"], scores["hallucinated_plans"]) == (names, wrong)


def test_predictions_must_be_as_many_as_gold_plans():
    with pytest.raises(ValueError, match="1 predictions for 2 gold plans"):
        metrics.score(["a"], ["a", "b"], EDGES, POOL)


def test_taskbench_pools_sets_before_precision_and_recall():
    predictions, golds = ["abx", "cc"], ["ab", "cde"]
    # Hits 2 + 1; predicted 2 (x falls out) + 1; wanted 2 + 3.
    assert metrics.taskbench_f1(predictions, golds, POOL) == pytest.approx(6 / 8)
    assert metrics.taskbench_f1(predictions, golds) == pytest.approx(6 / 9)
    assert metrics.taskbench_f1(["", "x"], ["", ""], POOL) is None


@pytest.mark.parametrize(
    ("prediction", "gold", "f1", "accuracy"),
    [
        ("ab", "ba", 1, 1),
        ("aab", "ab", 4 / 5, 0),
        ("aab", "aab", 2 / 3, 0),  # the repeat counts in both lengths, once in the intersection
        ("ax", "ab", 1 / 2, 0),
        ("", "ab", 0, 0),
        ("", "", 0, 0),
    ],
)
def test_gnn4plan_scores_an_example_at_a_time(prediction, gold, f1, accuracy):
    assert metrics.gnn4plan_f1(prediction, gold) == pytest.approx(f1)
    assert metrics.gnn4plan_accuracy(prediction, gold) == accuracy


def test_gnn4plan_hallucination_over_items_and_over_samples():
    assert metrics.gnn4plan_hallucination(["ax", "xx", "ab", ""], POOL) == (3 / 8, 2 / 4)
    assert metrics.gnn4plan_hallucination([], POOL) == (None, None)


def test_peer_scores_name_both_sets_apart():
    predictions = [PlanGraph.of("abx"), PlanGraph.of("aab")]
    golds = [PlanGraph.of("ab"), PlanGraph.of("ab")]
    assert predictions[0].links == (("a", "b"), ("b", "x"))
    scores = metrics.peer_scores(predictions, golds, EDGES, POOL)
    assert scores["taskbench"] == {
        "node_f1": 1,
        "link_f1": pytest.approx(2 * 2 / (4 + 2)),
    }
    assert scores["gnn4plan"] == {
        "node_f1": pytest.approx((4 / 5 + 4 / 5) / 2),
        "link_f1": pytest.approx((2 / 3 + 2 / 3) / 2),
        "accuracy": 0,
        "node_hallucination_item": pytest.approx(1 / 6),
        "node_hallucination_sample": 1 / 2,
        "link_hallucination_item": pytest.approx((1 / 2 + 1 / 2) / 2),
        "link_hallucination_sample": 1,
    }
