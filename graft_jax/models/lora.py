"""Low-rank adapters (LoRA) beside a frozen base: y = x W + (alpha / rank) · (x A) B.

The A matrices of maps that share an input stand side by side in one array, since thin products
run far below the rate of wide ones. The scale travels with the weights, so that no caller can
forget it or apply it twice.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from graft_jax.errors import GraftError
from graft_jax.models.layers import adapted_matmul, matmul
from graft_jax.models.spec import ModelSpec

# Linear maps of a block by the input they share.
GROUPS: dict[str, tuple[str, ...]] = {
    "qkv": ("q", "k", "v"),
    "o": ("o",),
    "gate_up": ("gate", "up"),
    "down": ("down",),
}
TARGETS = tuple(name for names in GROUPS.values() for name in names)


@struct.dataclass
class Lora:
    """Trained low-rank weights, float32.

    layers: L dicts, group -> {"a": [in, R · members], member: [R, out]}; scale: alpha / rank.
    """

    layers: tuple[dict[str, dict[str, jax.Array]], ...]
    scale: float = struct.field(pytree_node=False)


def members(group: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """The adapted maps of a group, in the order in which their A columns stand."""
    return tuple(member for member in GROUPS[name] if member in group)


def init_lora(
    key: jax.Array, spec: ModelSpec, rank: int, alpha: float, targets: Sequence[str] = TARGETS
) -> Lora:
    """A ~ uniform with variance 1 / (3 in), as usual for LoRA; B = 0, so that training starts at
    the base.

    Raises:
      GraftError: a target that is no linear map of a block, or a rank below one.
    """
    unknown = sorted(set(targets) - set(TARGETS))
    if unknown:
        raise GraftError(f"lora.targets: {unknown[0]!r} is not one of {', '.join(TARGETS)}")
    if rank < 1:
        raise GraftError(f"lora.rank: {rank} is below 1")
    shapes = spec.linear_shapes
    layers = []
    for layer in range(spec.layers):
        groups = {}
        for index, (name, all_members) in enumerate(GROUPS.items()):
            chosen = [member for member in all_members if member in targets]
            if not chosen:
                continue
            fan_in = shapes[chosen[0]][0]
            bound = fan_in**-0.5
            subkey = jax.random.fold_in(jax.random.fold_in(key, layer), index)
            group = {
                "a": jax.random.uniform(
                    subkey, (fan_in, rank * len(chosen)), minval=-bound, maxval=bound
                )
            }
            for member in chosen:
                group[member] = jnp.zeros((rank, shapes[member][1]), jnp.float32)
            groups[name] = group
        layers.append(groups)
    return Lora(layers=tuple(layers), scale=alpha / rank)


def linear(
    x: jax.Array,
    weights: Mapping[str, jax.Array],
    name: str,
    adapter: Mapping[str, Mapping[str, jax.Array]] | None,
    scale: float,
) -> list[jax.Array]:
    """The linear maps of group `name`, all of x [..., in]: float32 [..., out] a member.

    `adapter` is one layer of `Lora.layers`, or None for the base alone (or merged weights).
    """
    group = (adapter or {}).get(name, {})
    adapted = members(group, name)
    if adapted:
        dtype = weights[adapted[0]].dtype
        inner = matmul(x, group["a"].astype(dtype)) * scale
        rank = inner.shape[-1] // len(adapted)
    outputs = []
    for member in GROUPS[name]:
        w = weights[member]
        if member in adapted:
            start = adapted.index(member) * rank
            own = inner[..., start : start + rank]
            y = adapted_matmul(x, own, w, group[member].astype(w.dtype))
        else:
            y = matmul(x, w)
        if f"{member}_bias" in weights:
            y = y + weights[f"{member}_bias"]
        outputs.append(y)
    return outputs


def lora_delta(group: Mapping[str, jax.Array], name: str, member: str, scale: float) -> jax.Array:
    """(alpha / rank) · A B of one map, float32 [in, out]."""
    rank = group[member].shape[0]
    start = members(group, name).index(member) * rank
    return scale * group["a"][:, start : start + rank] @ group[member]


def merge(base: dict[str, Any], lora: Lora) -> dict[str, Any]:
    """The base with W + (alpha / rank) A B in place of every adapted W, in W's dtype."""
    layers = []
    for weights, adapter in zip(base["layers"], lora.layers, strict=True):
        merged = dict(weights)
        for name, group in adapter.items():
            for member in members(group, name):
                delta = lora_delta(group, name, member, lora.scale)
                merged[member] = (weights[member].astype(jnp.float32) + delta).astype(
                    weights[member].dtype
                )
        layers.append(merged)
    return {**base, "layers": tuple(layers)}
