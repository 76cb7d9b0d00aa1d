"""Greedy plans on held-out examples while a planner trains, and their scores."""

from collections.abc import Sequence

import numpy as np

from graft_jax import metrics
from graft_jax.catalog.catalog import Catalog
from graft_jax.data.examples import Example
from graft_jax.decoding.decode import Decoded
from graft_jax.decoding.masks import Index
from graft_jax.decoding.requests import Request, decode_prompts, make_limits
from graft_jax.models.adapter import Params
from graft_jax.models.spec import ModelSpec


def entries_to_plan(entries: np.ndarray, catalog: Catalog) -> list[str]:
    """Tool names of one row of restricted-space entries [S], up to its end-of-plan."""
    end = np.flatnonzero(entries == 0)
    length = int(end[0]) if len(end) else len(entries)
    return [catalog.names[entry - 1] for entry in entries[:length]]


def greedy_plans(
    params: Params,
    index: Index,
    spec: ModelSpec,
    catalog: Catalog,
    prompts: Sequence[Sequence[int]],
    max_steps: int,
) -> tuple[list[list[str]], Decoded]:
    """One plan a prompt, any tool allowed at any step, and the arrays it came from."""
    request = Request(np.ones(len(catalog), bool), False, 1, max_steps)
    limits = make_limits(request, catalog.successors, index.capacity)
    found = decode_prompts(params, index, spec, prompts, limits)
    return [entries_to_plan(row[0], catalog) for row in found.entries], found


def score_plans(
    plans: Sequence[Sequence[str]], examples: Sequence[Example], catalog: Catalog
) -> dict[str, float]:
    """EM, ELR, ACPL and tool F1 (shares, not percent), those that are defined."""
    scores = metrics.score(
        plans, [example.tools for example in examples], catalog.edge_set, set(catalog.names)
    )
    return {
        name: float(value)
        for name in ("em", "elr", "acpl", "tool_f1")
        if (value := scores[name]) is not None
    }
