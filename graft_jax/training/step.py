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

# (adapter, base, inputs) -> (loss, {name: scalar}); pure, differentiated by its first argument.
Loss = Callable[[Adapter, dict[str, Any], Any], tuple[jax.Array, dict[str, jax.Array]]]


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


def make_step(loss: Loss, optimizer: optax.GradientTransformation) -> Step:
    """A jitted step: (state, base, inputs) -> (state, metrics). Compiles once a batch shape.

    Metrics are the loss's own, `loss` and `grad_norm`, before clipping. The old state's arrays are
    given up to the new one.
    """

    @partial(jax.jit, donate_argnums=0)
    def update(
        carried: tuple[jax.Array, Adapter, Any], base: dict[str, Any], inputs: Any
    ) -> tuple[tuple[jax.Array, Adapter, Any], dict[str, jax.Array]]:
        step, adapter, opt = carried
        (value, metrics), grads = jax.value_and_grad(loss, has_aux=True)(adapter, base, inputs)
        updates, opt = optimizer.update(grads, opt, adapter)
        adapter = optax.apply_updates(adapter, updates)
        metrics = {"loss": value, "grad_norm": optax.tree.norm(grads), **metrics}
        return (step + 1, adapter, opt), metrics

    def step(
        state: TrainState, base: dict[str, Any], inputs: Any
    ) -> tuple[TrainState, dict[str, jax.Array]]:
        # Teacher and best are not donated: they outlive the step.
        carried, metrics = update((state.step, state.adapter, state.opt), base, inputs)
        number, adapter, opt = carried
        return dataclasses.replace(state, step=number, adapter=adapter, opt=opt), metrics

    return step


def copy_tree(tree: Any) -> Any:
    """Arrays of their own, so that a donated state does not take them along."""
    return jax.tree.map(lambda array: jnp.array(array, copy=True), tree)
