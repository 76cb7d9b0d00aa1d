"""What a stage has taught, measured: edges recovered from hidden states, a teacher's reading."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from scipy.stats import rankdata

from graft_jax.data.batches import PathBatch, path_batch
from graft_jax.data.examples import Example
from graft_jax.data.order import bucket
from graft_jax.losses.edges import edge_scores
from graft_jax.models.adapter import Adapter
from graft_jax.models.passes import sequence_pass, with_adapter
from graft_jax.training.objectives import rollout_metrics
from graft_jax.training.stages import Prepare, Task, distill_batch, distill_rows, to_devices
from graft_jax.training.step import TrainState
from graft_jax.training.validation import greedy_plans, score_plans

_ROWS = 64  # tools scored together


def area_under_curve(positive: np.ndarray, negative: np.ndarray) -> float | None:
    """Chance that a positive's score is above a negative's (ties count half); None without both."""
    if not len(positive) or not len(negative):
        return None
    ranks = rankdata(np.concatenate([positive, negative]))[: len(positive)]
    above = ranks.sum() - len(positive) * (len(positive) + 1) / 2
    return float(above / (len(positive) * len(negative)))


def successor_scores(
    adapter: Adapter, base: dict[str, Any], task: Task, temperature: float
) -> np.ndarray:
    """Eq. 7 for every ordered pair of tools, float32 [tools, tools]: is column a successor of row?

    Each tool is read alone, after the first token.
    """

    @jax.jit
    def score(adapter: Adapter, base: dict[str, Any], batch: PathBatch) -> jax.Array:
        _, penultimate = sequence_pass(
            with_adapter(base, adapter), task.spec, batch.tokens, batch.positions, batch.segments
        )
        return edge_scores(
            penultimate[:, 1],
            adapter.tools.embed,
            adapter.edges.hidden,
            adapter.edges.row,
            temperature,
        )

    count = len(task.catalog)
    rows = []
    for start in range(0, count, _ROWS):
        tools = np.arange(start, start + _ROWS).clip(max=count - 1)[:, None]
        none = np.full((_ROWS, 1, 1), -1)
        batch = path_batch(tools, none, none >= 0, task.prompts.first_token, task.spec.vocab_size)
        rows.append(np.asarray(score(adapter, base, batch)))
    return np.concatenate(rows)[:count, :count]


def edge_report(
    scores: np.ndarray,
    successors: Sequence[np.ndarray],
    held_out: Sequence[tuple[int, int]],
) -> dict[str, dict[str, float | int | None]]:
    """How well edges are recovered from `successor_scores`.

    all: every edge against every pair that is none; held_out: the edges that the loss never saw,
    against the same pairs; reverse: edges whose reverse is none, against that reverse. Each has the
    area under the ROC curve (`auc`), the mean over tools of the share of edges among the
    highest-scored tools, as many as there are edges (`precision_at_out_degree`; trained successors
    are left out when held-out ones are looked for; for reverse the share of edges scored above
    their own reverse), and the number of `edges`.
    """
    edge = np.zeros(scores.shape, bool)
    for tool, targets in enumerate(successors):
        edge[tool, targets] = True
    hidden = np.zeros_like(edge)
    if held_out:
        hidden[tuple(np.array(held_out).T)] = True
    one_way = edge & ~edge.T
    others = scores[~edge]
    return {
        "all": {
            "auc": area_under_curve(scores[edge], others),
            "precision_at_out_degree": _precision(scores, edge),
            "edges": int(edge.sum()),
        },
        "held_out": {
            "auc": area_under_curve(scores[hidden], others),
            "precision_at_out_degree": _precision(
                np.where(edge & ~hidden, -np.inf, scores), hidden
            ),
            "edges": int(hidden.sum()),
        },
        "reverse": {
            "auc": area_under_curve(scores[one_way], scores.T[one_way]),
            "precision_at_out_degree": float((scores > scores.T)[one_way].mean())
            if one_way.any()
            else None,
            "edges": int(one_way.sum()),
        },
    }


def _precision(scores: np.ndarray, wanted: np.ndarray) -> float | None:
    shares = []
    for row, targets in zip(scores, wanted, strict=True):
        degree = int(targets.sum())
        if degree:
            shares.append(targets[np.argsort(-row, kind="stable")[:degree]].mean())
    return float(np.mean(shares)) if shares else None


def teacher_report(
    teacher: Adapter,
    base: dict[str, Any],
    task: Task,
    examples: Sequence[Example],
    prepare: Prepare,
    mesh: Mesh,
    batch_size: int,
) -> dict[str, Any]:
    """How well a teacher reads its context, before it teaches.

    query_only and with_context: scores of its greedy plans without and with subtasks and gold plan
    in the prompt; on_rollouts: `rollout_metrics` along plans sampled from the query alone.
    """
    rows = distill_rows(task, examples)
    params = with_adapter(base, teacher)
    report: dict[str, Any] = {"examples": len(rows)}
    for name, prompts in (
        ("query_only", [row.student for row in rows]),
        ("with_context", [row.teacher for row in rows]),
    ):
        plans, _ = greedy_plans(
            params, task.index, task.spec, task.catalog, prompts, task.longest + 1
        )
        report[name] = score_plans(plans, examples, task.catalog)
    state = TrainState(step=jnp.asarray(0), adapter=teacher, opt=None, teacher=teacher, best=None)
    order = np.argsort([len(row.student) for row in rows], kind="stable")
    whole = order[: len(order) // batch_size * batch_size] if len(order) >= batch_size else order
    sums = dict[str, np.ndarray]()
    for start in range(0, len(whole), batch_size):
        chosen = np.resize(whole[start : start + batch_size], batch_size)
        picked = [rows[row] for row in chosen]
        width = bucket(max(len(row.student) for row in picked))
        batch = to_devices(mesh, distill_batch(task, picked, chosen, width))
        for name, value in rollout_metrics(prepare(state, base, batch, 0)).items():
            sums[name] = sums.get(name, np.zeros(2)) + np.array(value)
    report["on_rollouts"] = {
        name: float(total / count) if count else None for name, (total, count) in sums.items()
    }
    return report
