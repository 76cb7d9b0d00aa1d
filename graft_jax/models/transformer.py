"""The decoder-only transformer of the llama family: embeddings in, residual stream out.

Layers are unrolled, one array a weight a layer. How positions attend to one another is a function
handed in, so that training, prompt passes and decoding share this one definition of a block.

base = {"embed" [V, D], "final_norm" [D], "head" [V, D] unless tied, "layers": L dicts of
"attn_norm" [D], "q" "k" "v" "o" [in, out], "mlp_norm" [D], "gate" "up" "down" [in, out], and where
the family has them "q_bias" "k_bias" "v_bias" [out], "q_norm" "k_norm" [H]}.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax

from graft_jax.models.layers import rms_norm, rotary_table, rotate, swiglu
from graft_jax.models.lora import Lora, linear
from graft_jax.models.spec import ModelSpec

Base = dict[str, Any]
# (layer number, q [..., N, H], k [..., K, H], v [..., K, H]) -> [..., N, H]
Attend = Callable[[int, jax.Array, jax.Array, jax.Array], jax.Array]


def run_blocks(
    base: Base,
    lora: Lora | None,
    spec: ModelSpec,
    hidden: jax.Array,
    positions: jax.Array,
    attend: Attend,
) -> tuple[jax.Array, jax.Array]:
    """All blocks over hidden float32 [..., D] at integer positions [...].

    Returns the residual stream after the final norm, and the one that enters the last block
    (before any norm: what edge reconstruction reads), both float32 [..., D].
    """
    table = rotary_table(positions, spec)
    penultimate = hidden
    for index, weights in enumerate(base["layers"]):
        adapter = lora.layers[index] if lora is not None else None
        scale = lora.scale if lora is not None else 0.0
        penultimate = hidden
        hidden = _block(hidden, weights, adapter, scale, spec, table, index, attend)
    return rms_norm(hidden, base["final_norm"], spec.eps), penultimate


def _block(
    hidden: jax.Array,
    weights: Mapping[str, jax.Array],
    adapter: Any,
    scale: float,
    spec: ModelSpec,
    table: tuple[jax.Array, jax.Array],
    index: int,
    attend: Attend,
) -> jax.Array:
    normed = rms_norm(hidden, weights["attn_norm"], spec.eps)
    q, k, v = linear(normed, weights, "qkv", adapter, scale)
    q = q.reshape(*q.shape[:-1], spec.heads, spec.head_width)
    k = k.reshape(*k.shape[:-1], spec.kv_heads, spec.head_width)
    v = v.reshape(*v.shape[:-1], spec.kv_heads, spec.head_width)
    if spec.qk_norm:
        q = rms_norm(q, weights["q_norm"], spec.eps)
        k = rms_norm(k, weights["k_norm"], spec.eps)
    dtype = weights["k"].dtype
    out = attend(index, rotate(q, table), rotate(k, table).astype(dtype), v.astype(dtype))
    hidden = hidden + linear(out.reshape(*hidden.shape[:-1], -1), weights, "o", adapter, scale)[0]
    normed = rms_norm(hidden, weights["mlp_norm"], spec.eps)
    gate, up = linear(normed, weights, "gate_up", adapter, scale)
    return hidden + linear(swiglu(gate, up, weights["down"]), weights, "down", adapter, scale)[0]
