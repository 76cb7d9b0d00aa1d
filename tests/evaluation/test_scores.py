"""Scores of prediction records, their files, their comparison, and the table made from them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graft_jax import metrics
from graft_jax.catalog.catalog import Catalog, Tool
from graft_jax.errors import GraftError
from graft_jax.evaluation import score_files
from graft_jax.evaluation.score_files import read_scores, slim, write_scores
from graft_jax.evaluation.scores import compare, score_predictions
from graft_jax.evaluation.tables import paired_table

NAMES = ("search", "book", "pay", "remind", "cancel")
CATALOG = Catalog(
    tuple(Tool(name) for name in NAMES),
    (("search", "book"), ("book", "pay"), ("pay", "remind"), ("search", "search")),
)
PROVENANCE = {
    "seed": 0,
    "config": {"epochs": 1},
    "data_hash": "d",
    "planner_hash": None,
    "versions": {"jax": "0", "graft_jax": "0"},
}


def record(identity: str, gold: str, predicted: str, **more: Any) -> dict[str, Any]:
    return {
        "id": identity,
        "query": f"do {identity}",
        "gold": gold.split(),
        "predicted": predicted.split(),
        **more,
    }


FOUR = [
    record("a", "search book", "search book"),
    record("b", "search book pay", "search pay"),
    record("c", "pay remind", "pay"),
    record("d", "book pay", "fly pay"),
]


def random_records(n: int, right: float, seed: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    records = []
    for i in range(n):
        gold = [NAMES[k] for k in rng.integers(0, 5, size=rng.integers(2, 6))]
        predicted = list(gold)
        if rng.random() > right:
            predicted[-1] = NAMES[(NAMES.index(gold[-1]) + 1) % 5]
        records.append(record(f"r{i}", " ".join(gold), " ".join(predicted)))
    return records


def value(scores: dict[str, Any], metric: str, part: str = "all") -> Any:
    return scores[part]["metrics"][metric]["value"]


def test_hand_computed_scores() -> None:
    scores = score_predictions(FOUR, CATALOG, seed=0)
    assert value(scores, "em") == 0.25
    assert value(scores, "elr") == pytest.approx(1 / 3)  # c is short and left out
    assert scores["all"]["metrics"]["elr"]["count"] == 3
    assert scores["all"]["short_plans"] == 1
    assert value(scores, "acpl") == pytest.approx((2 + 1 + 1 + 0) / 4)
    assert value(scores, "hallucination") == pytest.approx(1 / 7)
    assert value(scores, "hallucinated_plans") == 0.25
    assert value(scores, "pa@1") == 0.75
    assert value(scores, "pa@3") == 0.0
    assert value(scores, "elr_pooled") == pytest.approx(1 / 3)
    assert "token_hallucination" not in scores["all"]["metrics"]


def test_a_metric_without_examples_is_null_not_zero() -> None:
    scores = score_predictions(FOUR[:1], CATALOG, seed=0)
    assert value(scores, "pa@3") is None
    json.dumps(scores, allow_nan=False)


def test_values_are_those_of_the_metrics_module() -> None:
    records = random_records(80, 0.5, seed=1)
    scores = score_predictions(records, CATALOG, seed=0)
    plans, golds = [r["predicted"] for r in records], [r["gold"] for r in records]
    edges, pool = CATALOG.edge_set, frozenset(CATALOG.names)
    direct = metrics.score(plans, golds, edges, pool)
    for name in direct.keys() - {"examples", "elr_undefined"}:
        assert value(scores, name) == pytest.approx(direct[name])
    graphs = [[metrics.PlanGraph.of(plan) for plan in side] for side in (plans, golds)]
    for peer, figures in metrics.peer_scores(graphs[0], graphs[1], edges, pool).items():
        for name, figure in figures.items():
            assert value(scores, f"{peer}_{name}") == pytest.approx(figure)


def test_slices_by_length_add_up_to_the_whole() -> None:
    scores = score_predictions(random_records(60, 0.6, seed=2), CATALOG, seed=0)
    parts = scores["by_length"].values()
    assert sum(part["examples"] for part in parts) == 60
    right = sum(part["examples"] * part["metrics"]["em"]["value"] for part in parts)
    assert right / 60 == pytest.approx(value(scores, "em"))
    assert list(scores["by_length"]) == sorted(scores["by_length"])


def test_groups_are_scored_apart() -> None:
    scores = score_predictions(FOUR, CATALOG, seed=0, groups={"seen": ["a"], "unseen": ["b", "d"]})
    assert scores["groups"]["seen"]["metrics"]["em"]["value"] == 1.0
    assert scores["groups"]["unseen"]["metrics"]["em"]["value"] == 0.0
    with pytest.raises(GraftError, match=r"group 'seen'.*'zzz'"):
        score_predictions(FOUR, CATALOG, seed=0, groups={"seen": ["zzz"]})


def test_an_empty_group_has_undefined_metrics() -> None:
    scores = score_predictions(FOUR, CATALOG, seed=0, groups={"unseen": []})
    assert scores["groups"]["unseen"]["examples"] == 0
    assert scores["groups"]["unseen"]["metrics"]["em"]["value"] is None


def test_legality_against_further_graphs_stands_beside() -> None:
    wider = frozenset({*CATALOG.edges, ("search", "pay")})
    scores = score_predictions(FOUR, CATALOG, seed=0, graphs={"all_rows": wider})
    assert value(scores, "elr_all_rows") == pytest.approx(2 / 3)


@pytest.mark.parametrize(("choice", "expected"), [("legal", 2 / 4), ("illegal", 1 / 4)])
def test_short_plans_can_count(choice: Any, expected: float) -> None:
    assert value(score_predictions(FOUR, CATALOG, seed=0, short_plans=choice), "elr") == expected


def test_free_text_counts_as_hallucination_by_the_token() -> None:
    records = [
        record("a", "search", "search", generated_tokens=2, non_tool_tokens=0),
        record("b", "search", "search", generated_tokens=8, non_tool_tokens=3),
    ]
    scores = score_predictions(records, CATALOG, seed=0)
    assert value(scores, "token_hallucination") == pytest.approx(0.3)
    assert value(scores, "token_hallucinated_plans") == 0.5
    assert value(scores, "hallucination") == 0.0


def test_cost_is_summed_up_where_given() -> None:
    records = [record(str(i), "search", "search", prompt_tokens=i, seconds=0.1) for i in range(100)]
    cost = score_predictions(records, CATALOG, seed=0)["cost"]
    assert cost["prompt_tokens"] == {"mean": 49.5, "median": 49.5, "p95": 94.05, "count": 100}
    assert "generated_tokens" not in cost


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([], "no predictions"),
        ([{"id": "a", "query": "q", "gold": ["pay"]}], "id 'a'.*predicted"),
        ([FOUR[0], FOUR[0]], "id 'a' stands twice"),
        ([record("a", "pay", "pay", non_tool_tokens=1)], "'a'.*generated_tokens"),
    ],
)
def test_bad_records_are_named(records: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(GraftError, match=message):
        score_predictions(records, CATALOG, seed=0)


def test_an_unknown_rule_for_short_plans_is_refused() -> None:
    with pytest.raises(GraftError, match="omit, legal, illegal"):
        score_predictions(FOUR, CATALOG, seed=0, short_plans="drop")  # type: ignore[arg-type]


# Files.


def test_a_score_file_reads_back_as_it_was_written(tmp_path: Path) -> None:
    scores = score_predictions(FOUR, CATALOG, seed=0, groups={"seen": ["a"]})
    write_scores(tmp_path / "new" / "s.json", scores, FOUR, PROVENANCE)
    content = read_scores(tmp_path / "new" / "s.json")
    assert content["scores"] == scores
    assert content["predictions"] == FOUR
    assert content["provenance"] == PROVENANCE
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["s.json"]


def test_provenance_must_be_complete(tmp_path: Path) -> None:
    scores = score_predictions(FOUR, CATALOG, seed=0)
    with pytest.raises(GraftError, match="lacks config, versions"):
        write_scores(
            tmp_path / "s.json",
            scores,
            FOUR,
            {"seed": 0, "data_hash": "d", "planner_hash": None},
        )
    assert not list(tmp_path.iterdir())


def test_a_number_that_is_not_finite_is_refused_and_leaves_no_file(tmp_path: Path) -> None:
    records = [record("a", "pay", "pay", log_prob=float("nan"))]
    scores = score_predictions(records, CATALOG, seed=0)
    with pytest.raises(GraftError, match=r"s\.json.*JSON"):
        write_scores(tmp_path / "s.json", scores, records, PROVENANCE)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "no such file"),
        ("{", "JSON"),
        ("[1, 2]", "not a score file"),
        ('{"kind": "other"}', "not a score file"),
        (json.dumps({"kind": score_files.KIND, "format": 99}), "format 99"),
        (json.dumps({"kind": score_files.KIND, "format": 1}), "provenance is None"),
    ],
)
def test_what_is_no_score_file_is_refused_by_name(
    tmp_path: Path, text: str | None, message: str
) -> None:
    path = tmp_path / "bad.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(GraftError, match=rf"bad\.json.*{message}"):
        read_scores(path)


def test_a_slim_file_of_500_rows_is_small_and_still_compares(tmp_path: Path) -> None:
    records = random_records(500, 0.6, seed=3)
    for row in records:  # real names are longer
        row["query"] *= 20
        row["runners_up"] = [[["search", 0.1]] * 5] * 3
    scores = score_predictions(records, CATALOG, seed=0)
    write_scores(tmp_path / "full.json", scores, records, PROVENANCE)
    full = read_scores(tmp_path / "full.json")
    score_files.save_scores(tmp_path / "slim.json", slim(full))
    assert (tmp_path / "slim.json").stat().st_size < 100_000
    small = read_scores(tmp_path / "slim.json")
    assert slim(small) == small
    assert small["predictions"][0] == ["r0", records[0]["predicted"], 1]
    assert small["scores"]["all"]["metrics"]["em"]["value"] == value(scores, "em")
    same = compare(full["scores"], small["scores"])
    assert same["all"]["metrics"]["em"]["value"] == 0
    assert not same["only_a"]


# Comparison.


def test_scores_do_not_differ_from_themselves() -> None:
    scores = score_predictions(random_records(50, 0.5, seed=4), CATALOG, seed=0)
    found = compare(scores, scores)
    for part in (found["all"], *found["by_length"].values()):
        for figure in part["metrics"].values():
            assert figure["value"] in (0.0, None)
            assert figure["verdict"] == "unclear"


def test_where_it_is_better_and_where_worse() -> None:
    def plans(short_right: bool, long_right: bool) -> dict[str, Any]:
        short = [
            record(f"s{i}", "search book", "search book" if short_right else "pay book")
            for i in range(20)
        ]
        long = [
            record(f"l{i}", "search book pay", "search book pay" if long_right else "search")
            for i in range(20)
        ]
        records = short + long if short_right else long + short  # ids align, order does not
        return score_predictions(records, CATALOG, seed=0, groups={"long": [r["id"] for r in long]})

    found = compare(plans(True, False), plans(False, True))
    assert found["by_length"]["2"]["metrics"]["em"]["verdict"] == "better"
    assert found["by_length"]["2"]["metrics"]["ned"]["verdict"] == "better"
    assert found["by_length"]["3"]["metrics"]["em"]["verdict"] == "worse"
    assert found["groups"]["long"]["metrics"]["em"]["value"] == -1.0
    assert found["all"]["metrics"]["em"]["verdict"] == "unclear"
    assert found["only_a"] == [f"s{i}" for i in range(20)]
    assert sorted(found["only_b"]) == sorted(f"l{i}" for i in range(20))
    shown = {line.split(" | ")[0]: line for line in paired_table(found).splitlines()}
    assert " 100.0 [100.0, 100.0] better " in shown["| 2 tools"]
    assert " -100.0 [-100.0, -100.0] worse " in shown["| 3 tools"]
    assert "better" not in shown["| all"].split(" | ")[2]


def test_a_difference_is_that_of_the_two_scores() -> None:
    a = score_predictions(random_records(60, 0.9, seed=5), CATALOG, seed=0)
    records = random_records(60, 0.9, seed=5)
    for row in records[:20]:
        row["predicted"] = ["nowhere"]
    b = score_predictions(records, CATALOG, seed=0)
    for name, figure in compare(a, b)["all"]["metrics"].items():
        assert figure["a"] == value(a, name)
        assert figure["value"] == pytest.approx(value(a, name) - value(b, name))
    assert compare(a, b)["all"]["metrics"]["hallucination"]["verdict"] == "better"


def test_only_scores_of_the_same_rows_compare() -> None:
    a = score_predictions(FOUR, CATALOG, seed=0)
    with pytest.raises(GraftError, match="1 ids, among them 'd'"):
        compare(a, score_predictions(FOUR[:3], CATALOG, seed=0))
    other = [*FOUR[:3], record("d", "book pay remind", "pay")]
    with pytest.raises(GraftError, match=r"'d'.*different length"):
        compare(a, score_predictions(other, CATALOG, seed=0))
