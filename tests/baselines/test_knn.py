"""kNN: TF-IDF by hand, majority and ties, and the scores known for it on UltraTool."""

import json
import math
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from graft_jax import metrics
from graft_jax.baselines.knn import KNN, TfIdf, words
from graft_jax.catalog import Catalog, Tool
from graft_jax.errors import GraftError


@dataclass(frozen=True)
class Row:
    query: str
    tools: tuple[str, ...]


CATALOG = Catalog(tuple(Tool(name) for name in "abcd"), (("a", "b"), ("a", "c")))


def planner(*rows: tuple[str, str], neighbours: int = 5) -> KNN:
    train = [Row(query, tuple(plan)) for query, plan in rows]
    return KNN(neighbours).fit(train, CATALOG)


def test_words_are_lower_cased_runs_of_two_or_more():
    assert words("Book a FLIGHT (CA1234), at 8 o'clock!") == [
        "book",
        "flight",
        "ca1234",
        "at",
        "clock",
    ]


def test_tf_idf_by_hand():
    vectors = TfIdf(["red red blue", "blue green"])(
        ["red red blue", "green pink", "pink"]
    ).toarray()
    rare, common = math.log(3 / 2) + 1, 1.0  # columns: blue, green, red
    long = math.hypot(common, 2 * rare)
    expected = [[common / long, 0, 2 * rare / long], [0, 1, 0], [0, 0, 0]]
    np.testing.assert_allclose(vectors, expected)


def test_the_majority_of_the_nearest_wins():
    knn = planner(
        ("send red mail", "a"),
        ("send red mail now", "ab"),
        ("send red mail later", "ab"),
        ("play music", "d"),
    )
    assert knn.plan(["send red mail"]) == [["a", "b"]]


def test_equal_counts_go_to_the_plan_that_stands_nearest():
    knn = planner(
        ("cut red grass today please", "ab"),
        ("cut red grass today", "ac"),
        ("cut red grass", "d"),
        ("cut red", "ac"),
        ("cut", "ab"),
    )
    # From near to far: ab, ac, d, ac, ab.
    assert knn.nearest(["cut red grass today please"]).tolist() == [[0, 1, 2, 3, 4]]
    assert knn.plan(["cut red grass today please"]) == [["a", "b"]]


def test_queries_at_one_distance_keep_the_order_of_training():
    rows = [("same words", "a"), ("same words", "b"), ("other", "c"), ("same words", "b")]
    assert planner(*rows, neighbours=3).nearest(["words same"]).tolist() == [[0, 1, 3]]
    assert planner(*rows, neighbours=2).plan(["words same", "unknown"]) == [["a"], ["a"]]


def test_fewer_training_rows_than_neighbours_and_no_queries():
    knn = planner(("one", "a"), ("two", "b"))
    assert knn.plan(["two"]) == [["b"]]
    assert knn.plan([]) == []


def test_blocks_of_queries_change_nothing():
    rows = [(f"word{i} common", "ab"[i % 2]) for i in range(50)]
    queries = [f"word{i % 50}" for i in range(600)]
    knn = planner(*rows, neighbours=1)
    assert knn.plan(queries) == [knn.plan([query])[0] for query in queries]


def test_what_cannot_be_fitted_is_refused():
    with pytest.raises(GraftError, match="no training examples"):
        KNN().fit([], CATALOG)
    with pytest.raises(GraftError, match="no tool 'nap'"):
        KNN().fit([Row("sleep", ("nap",))], CATALOG)
    with pytest.raises(ValueError, match="at least one neighbour"):
        KNN(0)
    with pytest.raises(RuntimeError, match="fit first"):
        KNN().plan(["anything"])


@pytest.mark.data
def test_scores_on_the_official_test_ids_of_ultratool():
    raw = Path(os.environ["GRAFT_DATA"]) / "ultratool" / "raw"
    graph = json.loads((raw / "graph_desc.json").read_text(encoding="utf-8"))
    tools = tuple(Tool(node["id"]) for node in graph["nodes"])
    edges = tuple((link["source"], link["target"]) for link in graph["links"])
    catalog = Catalog(tools, edges)
    ids = json.loads((raw / "split_ids.json").read_text())["test_ids"]["chain"]
    train, test = [], []
    for line in (raw / "data.json").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        row = Row(record["user_request"], tuple(node["task"] for node in record["task_nodes"]))
        (test if record["id"] in ids else train).append(row)
    assert (len(train), len(test)) == (3027, 500)

    def scores(neighbours: int) -> dict:
        predictions = KNN(neighbours).fit(train, catalog).plan([row.query for row in test])
        golds = [row.tools for row in test]
        return metrics.score(predictions, golds, catalog.edge_set, frozenset(catalog.names))

    five = scores(5)
    names = ("em", "elr", "acpl", "tool_f1", "ned", "pa@1", "pa@3")
    assert [round(five[name], 3) for name in names] == [
        0.406,
        1.0,
        1.166,
        0.761,
        0.407,
        0.606,
        0.240,
    ]
    assert scores(1)["em"] == 0.362
