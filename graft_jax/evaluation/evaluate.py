"""A planner against a split of its data: predictions, scores, kNN beside it, the run's report."""

import statistics
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, TypedDict

import jax
import numpy as np

from graft_jax._version import __version__
from graft_jax.baselines.knn import KNN
from graft_jax.data.examples import SPLITS, Example, data_hash, load_splits
from graft_jax.errors import GraftError
from graft_jax.evaluation.report import REPORT, write_report
from graft_jax.evaluation.run_folder import PICTURES
from graft_jax.evaluation.score_files import read_scores, save_scores, slim, write_scores
from graft_jax.evaluation.scores import score_predictions
from graft_jax.io.files import try_target
from graft_jax.io.planner_folder import PLANNER
from graft_jax.planner import Constrain, Plan, Planner, load, plan
from graft_jax.shapes import misfit

SCORES = "scores"


class _Stage(TypedDict):
    enabled: bool


class _Config(TypedDict):
    """What is read of a planner's config."""

    seed: int
    data: str
    backbone: str
    train_on_validation: bool
    grounding: _Stage
    edges: _Stage
    sft: _Stage
    distill: _Stage


def evaluate(
    folder: str | Path,
    split: str = "test",
    constrain: Constrain = "graph",
    data: str | Path | None = None,
    backbone: str | Path | None = None,
    single_queries: int = 32,
    seed: int = 0,
    small_copy: str | Path | None = None,
) -> Path:
    """Plans every request of a split, scores the plans and kNN's, and writes the run's report.

    Writes `scores/<split>-<constrain>.json` and `scores/<split>-knn.json` into the planner's folder
    and `report.md` beside them. `data` is the folder the planner was trained on, where it has
    moved; `single_queries` requests are also planned one at a time, for their wall time; `seed` is
    the bootstrap's; `small_copy` takes the first file's small form, for `results/`. Returns the
    path of the first file.

    Raises:
      GraftError: an unknown split, data other than the planner's, a planner that cannot be loaded,
        or a file that could not be written in the end.
    """
    if split not in SPLITS:
        raise GraftError(f"--split {split!r} is not one of {', '.join(SPLITS)}")
    folder = Path(folder)
    planner = load(folder, backbone)
    config = planner.card["config"]
    if odd := misfit(config, _Config):
        raise GraftError(f"{folder / PLANNER}: config.{odd}; train or copy the planner again")
    where = Path(data if data is not None else config["data"])
    if not where.is_dir():
        raise GraftError(f"{where}: the planner's data is not there; give its folder with --data")
    found = data_hash(where)
    if found != planner.card["data_hash"]:
        raise GraftError(
            f"{where}: is not the data this planner was trained on (content {found[:12]}, not "
            f"{planner.card['data_hash'][:12]}); give the right folder with --data"
        )
    splits = load_splits(where, planner.catalog)
    examples = splits[split]
    train = list(splits["train"])
    if config["train_on_validation"]:
        train += splits["validation"]
    groups = _groups(examples, train)
    path, peer_path = (folder / SCORES / f"{split}-{name}.json" for name in (constrain, "knn"))
    for target in (path, peer_path, folder / REPORT, folder / PICTURES / "losses.png"):
        try_target(target)
    if small_copy is not None:
        try_target(small_copy)
    provenance = {
        "seed": config["seed"],
        "config": config,
        "data_hash": found,
        "data": where.name,
        "split": split,
        "backbone": Path(config["backbone"]).name,
        "versions": {"jax": jax.__version__, "graft-jax": __version__, "numpy": np.__version__},
    }

    records = _records(planner, examples, constrain, single_queries)
    write_scores(
        path,
        score_predictions(records, planner.catalog, seed=seed, groups=groups),
        records,
        {
            **provenance,
            "method": method_name(config),
            "planner_hash": planner.card["adapter_hash"],
            "constrain": constrain,
        },
    )

    peer = KNN().fit(train, planner.catalog)
    guesses = peer.plan([example.query for example in examples])
    peers = [
        {"id": e.id, "query": e.query, "gold": list(e.tools), "predicted": list(guess)}
        for e, guess in zip(examples, guesses, strict=True)
    ]
    write_scores(
        peer_path,
        score_predictions(peers, planner.catalog, seed=seed, groups=groups),
        peers,
        {**provenance, "method": "kNN", "planner_hash": None, "constrain": None, "backbone": None},
    )
    if small_copy is not None:
        save_scores(small_copy, slim(read_scores(path)))
    write_report(folder)
    return path


def method_name(config: dict[str, Any]) -> str:
    """What a run's stages amount to: "GRAFT", "SFT alone", or GRAFT without the stages named."""
    off = [name for name in ("grounding", "edges", "sft", "distill") if not config[name]["enabled"]]
    if off == ["grounding", "edges", "distill"]:
        return "SFT alone"
    return "GRAFT" if not off else f"GRAFT without {', '.join(off)}"


def _groups(examples: Sequence[Example], train: Sequence[Example]) -> dict[str, list[str]]:
    """Ids by whether the gold plan, and each of its edges, stands in training."""
    plans = {example.tools for example in train}
    edges = {pair for tools in plans for pair in pairwise(tools)}
    known = [e.id for e in examples if e.tools in plans]
    fresh = [e.id for e in examples if e.tools not in plans]
    unseen_edge = [e.id for e in examples if not edges.issuperset(pairwise(e.tools))]
    named = {
        "plan seen in training": known,
        "plan not seen in training": fresh,
        "an edge not seen in training": unseen_edge,
    }
    return {name: ids for name, ids in named.items() if ids}


def _records(
    planner: Planner, examples: Sequence[Example], constrain: Constrain, single_queries: int
) -> list[dict[str, Any]]:
    queries = [example.query for example in examples]
    plan(planner, queries, constrain=constrain)  # compiles, so that the second run is timed
    start = time.perf_counter()
    plans = plan(planner, queries, constrain=constrain)
    each = (time.perf_counter() - start) / len(queries)
    records = [
        _record(example, found, constrain) | {"batched_seconds": each}
        for example, found in zip(examples, plans, strict=True)
    ]
    for row in range(min(single_queries, len(queries))):
        plan(planner, queries[row], constrain=constrain)
        times = []
        for _ in range(3):
            start = time.perf_counter()
            plan(planner, queries[row], constrain=constrain)
            times.append(time.perf_counter() - start)
        records[row]["seconds"] = statistics.median(times)
    return records


def _record(example: Example, found: Plan, constrain: Constrain) -> dict[str, Any]:
    record: dict[str, Any] = {
        "id": example.id,
        "query": example.query,
        "gold": list(example.tools),
        "predicted": list(found.tools),
        "log_prob": found.log_prob,
        "is_legal": found.is_legal,
        "prompt_tokens": found.prompt_tokens,
        "generated_tokens": found.generated_tokens,
        "truncated": found.truncated,
    }
    if constrain == "off":
        return record | {"non_tool_tokens": found.non_tool_tokens}
    return record | {
        "probabilities": [step.probability for step in found.steps],
        "runners_up": [[list(other) for other in step.runners_up] for step in found.steps],
    }
