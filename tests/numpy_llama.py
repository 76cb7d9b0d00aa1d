"""A llama in plain NumPy, float64, one sequence and one head at a time: what JAX's must equal."""

from typing import Any

import numpy as np

from graft_jax.models.adapter import Params
from graft_jax.models.spec import ModelSpec

Array = np.ndarray
_GROUPS = {"qkv": ["q", "k", "v"], "o": ["o"], "gate_up": ["gate", "up"], "down": ["down"]}


def forward(
    params: Params, spec: ModelSpec, tokens: list[int], positions: list[int] | None = None
) -> tuple[Array, Array]:
    """(hidden after the final norm, residual that enters the last block), float64 [T, D]."""
    base = to_float64(params.base)
    rows = np.concatenate([base["embed"], np.asarray(params.tools.embed, np.float64)])
    x = rows[tokens]
    positions = list(range(len(tokens))) if positions is None else positions
    before = x
    for layer in range(spec.layers):
        weights = base["layers"][layer]
        if params.lora is not None:
            weights = weights | merged(weights, params.lora.layers[layer], params.lora.scale)
        before = x
        x = x + attention(rms_norm(x, weights["attn_norm"], spec.eps), weights, spec, positions)
        h = rms_norm(x, weights["mlp_norm"], spec.eps)
        gate = h @ weights["gate"]
        x = x + (gate / (1 + np.exp(-gate)) * (h @ weights["up"])) @ weights["down"]
    return rms_norm(x, base["final_norm"], spec.eps), before


def merged(weights: dict[str, Array], adapter: Any, scale: float) -> dict[str, Array]:
    """W + scale A B of every adapted map; A's columns stand side by side in the group's order."""
    found = {}
    for group, names in _GROUPS.items():
        present = [name for name in names if name in adapter.get(group, {})]
        for i, name in enumerate(present):
            b = np.asarray(adapter[group][name], np.float64)
            a = np.asarray(adapter[group]["a"], np.float64)[:, i * len(b) : (i + 1) * len(b)]
            found[name] = weights[name] + scale * a @ b
    return found


def attention(x: Array, weights: dict[str, Array], spec: ModelSpec, positions: list[int]) -> Array:
    heads = {}
    for name, count in (("q", spec.heads), ("k", spec.kv_heads), ("v", spec.kv_heads)):
        y = x @ weights[name] + weights.get(f"{name}_bias", 0.0)
        y = y.reshape(len(x), count, spec.head_width)
        if spec.qk_norm and name != "v":
            y = rms_norm(y, weights[f"{name}_norm"], spec.eps)
        heads[name] = y if name == "v" else rotate(y, spec, positions)
    out = np.zeros((len(x), spec.heads, spec.head_width))
    for n in range(spec.heads):
        kv = n // (spec.heads // spec.kv_heads)
        for t in range(len(x)):
            first = 0 if spec.sliding_window is None else max(0, t - spec.sliding_window + 1)
            scores = heads["k"][first : t + 1, kv] @ heads["q"][t, n] / np.sqrt(spec.head_width)
            share = np.exp(scores - scores.max())
            out[t, n] = share / share.sum() @ heads["v"][first : t + 1, kv]
    return out.reshape(len(x), -1) @ weights["o"]


def rms_norm(x: Array, scale: Array, eps: float) -> Array:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * scale


def rotate(x: Array, spec: ModelSpec, positions: list[int]) -> Array:
    """Multiplies (x_i + j x_{i + H/2}) by e^(j p f_i)."""
    half = spec.head_width // 2
    frequency = np.array([rope_frequency(i, spec) for i in range(half)])
    turn = np.exp(1j * np.outer(positions, frequency))[:, None]
    z = (x[..., :half] + 1j * x[..., half:]) * turn
    return np.concatenate([z.real, z.imag], axis=-1)


def rope_frequency(i: int, spec: ModelSpec) -> float:
    frequency = spec.rope_base ** (-2 * i / spec.head_width)
    scaling = spec.rope_scaling
    if scaling is None:
        return frequency
    wavelength = 2 * np.pi / frequency
    if wavelength < scaling.original_max_positions / scaling.high_freq_factor:
        return frequency
    if wavelength > scaling.original_max_positions / scaling.low_freq_factor:
        return frequency / scaling.factor
    turns = scaling.original_max_positions / wavelength
    smooth = (turns - scaling.low_freq_factor) / (
        scaling.high_freq_factor - scaling.low_freq_factor
    )
    return (1 - smooth) * frequency / scaling.factor + smooth * frequency


def to_float64(base: dict[str, Any]) -> dict[str, Any]:
    def wide(weights: Any) -> dict[str, Array]:
        return {k: np.asarray(v, np.float64) for k, v in weights.items() if k != "layers"}

    return wide(base) | {"layers": [wide(weights) for weights in base["layers"]]}
