"""The metrics over predictions that others published, against the figures known for them."""

import json
import os
from pathlib import Path

import pytest

from graft_jax import metrics
from graft_jax.metrics import PlanGraph

pytestmark = pytest.mark.data


def raw(domain: str) -> Path:
    return Path(os.environ["GRAFT_DATA"]) / "taskbench" / "raw" / domain


def graph_of(domain: str) -> tuple[frozenset[tuple[str, str]], frozenset[str]]:
    graph = json.loads((raw(domain) / "graph_desc.json").read_text())
    edges = frozenset((link["source"], link["target"]) for link in graph["links"])
    return edges, frozenset(node["id"] for node in graph["nodes"])


def dump(domain: str, model: str) -> dict[str, PlanGraph]:
    """Plans by id. A link counts where both its ends are strings: a few are lists or numbers."""
    plans = {}
    for line in (raw(domain) / f"pred_direct_{model}.json").read_text().splitlines():
        row = json.loads(line)
        ends = [(link.get("source"), link.get("target")) for link in row["task_links"]]
        links = tuple(e for e in ends if all(isinstance(name, str) for name in e))
        plans[row["id"]] = PlanGraph(tuple(node["task"] for node in row["task_nodes"]), links)
    return plans


@pytest.mark.parametrize(
    ("domain", "model", "figures"),
    [
        ("huggingface", "CodeLlama-13b", (0.1656, 0.4306, 0.4228, 0.6338)),
        ("huggingface", "mistral-7b", (0.1469, 0.4213, 0.4008, 0.6196)),
        ("multimedia", "CodeLlama-13b", (0.0490, 0.1606, 0.2499, 0.4056)),
        ("multimedia", "mistral-7b", (0.1049, 0.3326, 0.3174, 0.5031)),
    ],
)
def test_hallucination_as_published_for_gnn4plan(domain, model, figures):
    edges, pool = graph_of(domain)
    plans = list(dump(domain, model).values())
    scores = metrics.peer_scores(plans, plans, edges, pool)["gnn4plan"]
    names = [f"{kind}_hallucination_{of}" for kind in ("node", "link") for of in ("item", "sample")]
    assert [round(scores[name], 4) for name in names] == list(figures)


def test_edge_legality_depends_on_its_denominator():
    edges, pool = graph_of("huggingface")
    by_id = dump("huggingface", "mistral-7b")
    ids = json.loads((raw("huggingface") / "split_ids.json").read_text())["test_ids"]["chain"]
    present = [plan.nodes for plan in by_id.values()]
    every = [by_id[i].nodes if i in by_id else () for i in ids]
    assert (len(present), len(every)) == (489, 500)

    def elr(plans, short_plans):
        scores = metrics.score(plans, plans, edges, pool, short_plans=short_plans)
        return round(scores["elr"], 4), scores["elr_undefined"]

    assert elr(present, "omit") == (0.5752, 2)
    assert elr(present, "legal") == (0.5769, 2)
    assert elr(present, "illegal") == (0.5728, 2)
    assert elr(every, "omit") == (0.5752, 13)
    assert elr(every, "legal") == (0.5862, 13)
    assert elr(every, "illegal") == (0.5602, 13)
    pooled = metrics.score(present, present, edges, pool)["elr_pooled"]
    assert round(pooled, 4) == 0.5773
