"""Rollouts over a mesh: one `rollout` function, two thin wrappers that give the same tokens.

`jitted` lets the compiler lay out one program over sharded arrays: for a base that is split over
devices. `mapped` runs the program device by device, each holding the whole base: no collective at
all, so each device stops as soon as its own plans have ended.
"""

from collections.abc import Callable
from functools import partial

import jax
from jax.sharding import Mesh

from graft_jax.decoding.decode import sample_rollouts
from graft_jax.models.spec import ModelSpec
from graft_jax.sharding import REPLICATED, ROWS

# (params, index, ids [B, T], lengths [B], keys [B]) -> (entries [B, C, S], mask [B, C, S])
Rollout = Callable[..., tuple[jax.Array, jax.Array]]


def rollout(spec: ModelSpec, steps: int, rollouts: int, temperature: float) -> Rollout:
    """`sample_rollouts` with its static settings filled in."""

    def run(params, index, ids, lengths, keys):  # type: ignore[no-untyped-def]
        return sample_rollouts(
            params, index, spec, ids, lengths, keys, steps, rollouts, temperature
        )

    return run


def jitted(run: Rollout) -> Rollout:
    """One program over sharded rows; the base may be split over the mesh."""
    return jax.jit(run)


def mapped(run: Rollout, mesh: Mesh) -> Rollout:
    """The program once a device, over its own rows; parameters are held whole by each."""
    return jax.jit(
        partial(
            jax.shard_map,
            mesh=mesh,
            in_specs=(REPLICATED, REPLICATED, ROWS, ROWS, ROWS),
            out_specs=(ROWS, ROWS),
            check_vma=False,
        )(run)
    )
