"""The one training step: gradients of a stage's loss with respect to the adapter, and an update."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct

from graft_jax.models.adapter import Adapter

Counts = dict[str, jax.Array]
Metrics = dict[str, tuple[jax.Array, jax.Array]]  # name -> (sum, count)


@dataclasses.dataclass(frozen=True)
class Objective:
    """What a stage minimises, in a form that may be taken over parts of a batch and added up.

    counts: a whole batch's inputs -> what sums over it are divided by, which no weight changes.
    loss: (adapter, base, inputs, counts) -> (their share of the loss, metrics); `inputs` may be a
    part of the rows that `counts` tells of; pure, differentiated by its first argument.
    positions: inputs -> the positions that the backward pass keeps values of.
    """

    counts: Callable[[Any], Counts]
    loss: Callable[[Adapter, dict[str, Any], Any, Counts], tuple[jax.Array, Metrics]]
    positions: Callable[[Any], int]


@struct.dataclass
class TrainState:
    """All that changes while a stage trains, or that it stands on.

    step: updates made in this stage; teacher: the frozen adapter of distillation, None in other
    stages; best: the adapter with the highest validation score so far, None before the first.
    """

    step: jax.Array
    adapter: Adapter
    opt: Any
    teacher: Adapter | None
    best: Adapter | None


Step = Callable[[TrainState, dict[str, Any], Any], tuple[TrainState, dict[str, jax.Array]]]


def make_step(
    objective: Objective,
    optimizer: optax.GradientTransformation,
    positions_at_once: int,
    row_shards: int = 1,
) -> Step:
    """A jitted step: (state, base, inputs) -> (state, metrics). Compiles once a batch shape.

    A batch of more than `positions_at_once` positions a shard of its rows is taken in equal parts,
    one after the other, so that memory is bounded by a part; the gradient is the whole batch's.
    Metrics are the objective's own, `loss` and `grad_norm`, before clipping. The old state's arrays
    are given up to the new one.
    """

    @partial(jax.jit, donate_argnums=0)
    def update(
        carried: tuple[jax.Array, Adapter, Any], base: dict[str, Any], inputs: Any
    ) -> tuple[tuple[jax.Array, Adapter, Any], dict[str, jax.Array]]:
        step, adapter, opt = carried
        counts = objective.counts(inputs)
        gradient = jax.value_and_grad(objective.loss, has_aux=True)

        def take(total: Adapter, part: Any) -> tuple[Adapter, tuple[jax.Array, Metrics]]:
            found, grads = gradient(adapter, base, part, counts)
            return jax.tree.map(jnp.add, total, grads), found

        parts = _parts(inputs, objective.positions(inputs), positions_at_once, row_shards)
        nothing = jax.tree.map(jnp.zeros_like, adapter)
        grads, (losses, sums) = jax.lax.scan(take, nothing, parts)
        updates, opt = optimizer.update(grads, opt, adapter)
        adapter = optax.apply_updates(adapter, updates)
        metrics = {name: total.sum() / count.sum() for name, (total, count) in sums.items()}
        metrics = {"loss": losses.sum(), "grad_norm": optax.tree.norm(grads), **metrics}
        return (step + 1, adapter, opt), metrics

    def step(
        state: TrainState, base: dict[str, Any], inputs: Any
    ) -> tuple[TrainState, dict[str, jax.Array]]:
        # Teacher and best are not donated: they outlive the step.
        carried, metrics = update((state.step, state.adapter, state.opt), base, inputs)
        number, adapter, opt = carried
        return dataclasses.replace(state, step=number, adapter=adapter, opt=opt), metrics

    return step


def _parts(inputs: Any, positions: int, at_once: int, row_shards: int) -> Any:
    """The rows of every array in equal parts: [B, ...] -> [parts, B / parts, ...].

    Part p takes rows p, p + parts, ...: of every shard as many, so that no row changes its device.
    """
    rows = jax.tree.leaves(inputs)[0].shape[0]
    own = rows // row_shards
    parts = next(
        n
        for n in range(1, own + 1)
        if not own % n and (n == own or positions <= at_once * row_shards * n)
    )
    return jax.tree.map(
        lambda array: array.reshape(rows // parts, parts, *array.shape[1:]).swapaxes(0, 1), inputs
    )


def copy_tree(tree: Any) -> Any:
    """Arrays of their own, so that a donated state does not take them along."""
    return jax.tree.map(lambda array: jnp.array(array, copy=True), tree)
