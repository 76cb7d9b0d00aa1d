"""The passes over the transformer: whole sequences, prompts with branches, prompts, single steps.

Every pass is a pure function of (base, lora, tools, spec) and arrays; token ids V + i are tools.
Training differentiates `sequence_pass` and `branch_pass`; decoding calls `prompt_pass` once and
`step_pass` for every tool.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from graft_jax.models.adapter import Adapter, Params
from graft_jax.models.attention import attend, attend_continuations, visible
from graft_jax.models.spec import ModelSpec
from graft_jax.models.tool_tokens import embed
from graft_jax.models.transformer import run_blocks

Weights = tuple[jax.Array, ...]


@struct.dataclass
class Cache:
    """Keys and values of one prompt pass and of the steps made since, a pair a layer.

    prompt: L pairs [B, T, K, H]; lengths [B] of the right-padded prompts;
    own: L pairs [B, C, S, K, H], filled up to the step made last.
    """

    prompt: tuple[tuple[jax.Array, jax.Array], ...]
    lengths: jax.Array
    own: tuple[tuple[jax.Array, jax.Array], ...]


def with_adapter(base: dict[str, Any], adapter: Adapter) -> Params:
    """The parameters of a planner in training: base and adapter side by side, not merged."""
    return Params(base=base, lora=adapter.lora, tools=adapter.tools)


def sequence_pass(
    params: Params,
    spec: ModelSpec,
    tokens: jax.Array,
    positions: jax.Array,
    segments: jax.Array,
    branches: jax.Array | None = None,
) -> tuple[jax.Array, jax.Array]:
    """Whole sequences [B, T]; segment 0 is padding, equal segments see one another causally.

    Returns (hidden after the final norm, residual stream that enters the last block), [B, T, D].
    """
    mask = visible(segments, positions, branches, spec.sliding_window)
    return run_blocks(
        params.base,
        params.lora,
        spec,
        embed(params.base, params.tools, tokens),
        positions,
        lambda _, q, k, v: attend(q, k, v, mask),
    )


def branch_pass(
    params: Params,
    spec: ModelSpec,
    prompts: jax.Array,
    lengths: jax.Array,
    branches: jax.Array,
) -> jax.Array:
    """C continuations of each prompt in one pass, the prompt computed once.

    prompts [B, T] right-padded with `lengths` [B]; branches [B, C, S] token ids that follow the
    prompt. Returns hidden float32 [B, C, S + 1, D]: position s of branch c has read the prompt and
    the first s tokens of its branch, so it predicts token s.
    """
    (b, t), (_, c, s) = prompts.shape, branches.shape
    column = jnp.arange(t)
    steps = jnp.broadcast_to(jnp.arange(s), (b, c, s))
    tokens = jnp.concatenate([prompts, branches.reshape(b, c * s)], axis=1)
    positions = jnp.concatenate(
        [
            jnp.broadcast_to(column, (b, t)),
            (lengths[:, None, None] + steps).reshape(b, c * s),
        ],
        axis=1,
    )
    segments = jnp.concatenate(
        [(column < lengths[:, None]).astype(jnp.int32), jnp.ones((b, c * s), jnp.int32)], axis=1
    )
    numbers = jnp.concatenate([jnp.zeros(t, jnp.int32), jnp.repeat(jnp.arange(1, c + 1), s)])
    hidden, _ = sequence_pass(
        params, spec, tokens, positions, segments, jnp.broadcast_to(numbers, tokens.shape)
    )
    last = jnp.take_along_axis(hidden, (lengths - 1)[:, None, None], axis=1)  # [B, 1, D]
    last = jnp.broadcast_to(last[:, :, None], (b, c, 1, hidden.shape[-1]))
    return jnp.concatenate([last, hidden[:, t:].reshape(b, c, s, -1)], axis=2)


def prompt_pass(
    params: Params, spec: ModelSpec, ids: jax.Array, lengths: jax.Array, width: int, steps: int
) -> tuple[jax.Array, Cache]:
    """Reads right-padded prompts ids [B, T], for `width` continuations of up to `steps` tokens.

    Returns hidden [B, D] at each prompt's last token, and the cache.
    """
    b, t = ids.shape
    column = jnp.arange(t)
    positions = jnp.broadcast_to(column, (b, t))
    segments = (column < lengths[:, None]).astype(jnp.int32)
    mask = visible(segments, positions, window=spec.sliding_window)
    kept: dict[int, tuple[jax.Array, jax.Array]] = {}

    def keep(index: int, q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        kept[index] = (k, v)
        return attend(q, k, v, mask)

    hidden, _ = run_blocks(
        params.base,
        params.lora,
        spec,
        embed(params.base, params.tools, ids),
        positions,
        keep,
    )
    last = jnp.take_along_axis(hidden, (lengths - 1)[:, None, None], axis=1)[:, 0]
    shape = (b, width, steps, spec.kv_heads, spec.head_width)
    empty = tuple((jnp.zeros(shape, k.dtype), jnp.zeros(shape, v.dtype)) for k, v in kept.values())
    return last, Cache(prompt=tuple(kept.values()), lengths=lengths, own=empty)


def step_pass(
    params: Params, spec: ModelSpec, cache: Cache, tokens: jax.Array, step: jax.Array
) -> tuple[jax.Array, Cache]:
    """Appends one token to every continuation: tokens [B, C] stand at position lengths + step.

    Returns hidden [B, C, D], which predicts the next token, and the cache with the step written.
    """
    b, c = tokens.shape
    t, steps = cache.prompt[0][0].shape[1], cache.own[0][0].shape[2]
    position = cache.lengths + step
    column, own_column = jnp.arange(t), jnp.arange(steps)
    prompt_mask = column < cache.lengths[:, None]
    own_mask = own_column <= step
    if spec.sliding_window is not None:
        prompt_mask &= position[:, None] - column < spec.sliding_window
        own_mask &= step - own_column < spec.sliding_window
    written: dict[int, tuple[jax.Array, jax.Array]] = {}

    def write(index: int, q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        keys, values = cache.own[index]
        keys = jax.lax.dynamic_update_slice_in_dim(keys, k[:, :, None], step, axis=2)
        values = jax.lax.dynamic_update_slice_in_dim(values, v[:, :, None], step, axis=2)
        written[index] = (keys, values)
        return attend_continuations(q, cache.prompt[index], (keys, values), prompt_mask, own_mask)

    hidden, _ = run_blocks(
        params.base,
        params.lora,
        spec,
        embed(params.base, params.tools, tokens),
        jnp.broadcast_to(position[:, None], (b, c)),
        write,
    )
    return hidden, dataclasses.replace(cache, own=tuple(written.values()))
