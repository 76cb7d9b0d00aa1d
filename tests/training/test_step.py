"""One training step: a batch in parts moves the adapter as the whole batch does."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import tiny

from graft_jax.data.batches import (
    PathBatch,
    PromptBatch,
    TokenSequence,
    pack_sequences,
    pad_plans,
    pad_prompts,
    path_batch,
)
from graft_jax.training.objectives import (
    DistillInputs,
    distill_objective,
    edge_objective,
    token_objective,
)
from graft_jax.training.step import TrainState, copy_tree, make_step

SPEC = tiny.make_spec(layers=2)
TOOLS = jnp.arange(32) < 6
RNG = np.random.default_rng(7)


def tokens() -> Any:
    """Eight rows, each with another number of labels."""
    rows = [
        [TokenSequence((1, 5 + row), tuple(300 + RNG.integers(0, 6, row % 4 + 1)))]
        for row in range(8)
    ]
    return pack_sequences(rows, 8, 4)


def paths() -> PathBatch:
    """Eight paths, some of them without a successor at any position."""
    nodes = RNG.integers(0, 6, (8, 3))
    candidates = np.broadcast_to(np.arange(6), (8, 3, 6))
    positive = RNG.random((8, 3, 6)) < 0.15
    positive[::3] = False
    return path_batch(nodes, candidates, positive, 1, SPEC.vocab_size)


def prompts() -> PromptBatch:
    return pad_prompts([[1, *RNG.integers(3, 200, row % 3 + 1)] for row in range(8)], 8)


def distill_inputs() -> DistillInputs:
    """Two rollouts a row, of other lengths than the gold plans."""
    gold, gold_mask = pad_plans([RNG.integers(0, 6, row % 3 + 1) for row in range(8)], 4)
    rollouts = RNG.integers(1, 7, (8, 2, 5))
    lengths = RNG.integers(1, 6, (8, 2, 1))
    logits = RNG.standard_normal((8, 2, 5, 33)).astype(np.float32)
    return DistillInputs(
        prompts(), gold, gold_mask, rollouts, np.arange(5) < lengths, jnp.asarray(logits)
    )


OBJECTIVES = {
    "tokens": (token_objective(SPEC, tiny.WORDS, TOOLS, restricted=False), tokens),
    "edges": (edge_objective(SPEC, 0.1), paths),
    "distill": (distill_objective(SPEC, tiny.WORDS, TOOLS, 0.7), distill_inputs),
}


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("parts", [2, 8])
def test_parts_add_up_to_the_batch(name: str, parts: int) -> None:
    objective, make = OBJECTIVES[name]
    inputs = make()
    positions = objective.positions(inputs)
    base, adapter = tiny.make_base(SPEC), tiny.make_adapter(SPEC)
    optimizer = optax.sgd(1.0)

    def after(at_once: int) -> tuple[Any, dict[str, jax.Array]]:
        start = copy_tree(adapter)
        state = TrainState(jnp.asarray(0), start, optimizer.init(start), None, None)
        state, metrics = make_step(objective, optimizer, at_once)(state, base, inputs)
        moved = jax.tree.map(jnp.subtract, state.adapter, adapter)
        assert max(np.abs(leaf).max() for leaf in jax.tree.leaves(moved)) > 1e-3
        return moved, metrics

    whole, in_parts = after(positions), after(positions // parts)
    tiny.assert_trees_close(in_parts, whole, 2e-4)


def test_a_part_needs_less_memory_than_the_batch() -> None:
    objective, make = OBJECTIVES["tokens"]
    batch = make()
    base, adapter = tiny.make_base(SPEC), tiny.make_adapter(SPEC)
    optimizer = optax.sgd(1.0)
    state = TrainState(jnp.asarray(0), adapter, optimizer.init(adapter), None, None)

    def temporary(at_once: int) -> int:
        step = jax.jit(make_step(objective, optimizer, at_once))
        memory = step.lower(state, base, batch).compile().memory_analysis()
        return int(memory.temp_size_in_bytes)

    assert temporary(8) < 0.4 * temporary(64)
