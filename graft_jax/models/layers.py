"""The arithmetic of a transformer block. Pure functions; knows nothing of blocks or adapters.

One way to multiply: `matmul`, and `matmul_rows` for a matrix held by rows. Operands enter it in the
weight's dtype (bfloat16 or float32); products are accumulated and returned in float32. On XLA's CPU
back end that combination, and no other, reaches the bfloat16 matrix units; on GPU and TPU it is the
usual mixed precision.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from graft_jax.models.spec import ModelSpec

# A product with fewer rows falls out of the CPU back end's matrix path into a several times slower
# one; a few rows of zeros cost nothing.
_MIN_ROWS = 4


def _dot(x: jax.Array, w: jax.Array, x_axis: int, w_axis: int) -> jax.Array:
    """2-D product contracting `x_axis` with `w_axis`, accumulated in float32.

    Transposes are said by the contracted axes: an explicit `.T` is copied by the CPU back end.
    """
    return lax.dot_general(
        x, w, (((x_axis,), (w_axis,)), ((), ())), preferred_element_type=jnp.float32
    )


def matmul(x: jax.Array, w: jax.Array) -> jax.Array:
    """x [..., in] times w [in, out] -> float32 [..., out]; x is cast to w's dtype."""
    return _product(x, w, 0)


def matmul_rows(x: jax.Array, rows: jax.Array) -> jax.Array:
    """x [..., D] against rows [E, D] -> float32 [..., E]: scores of E rows (an output layer)."""
    return _product(x, rows, 1)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _product(x: jax.Array, w: jax.Array, axis: int) -> jax.Array:
    """x [..., in] contracted with `axis` of the matrix w, in w's dtype.

    The backward pass casts cotangents to w's dtype too, so that all three products of a linear
    map run on the matrix units. A gradient that nobody asks for (a frozen w) is not computed.
    """
    return _forward(x, w, axis)[0]


def _forward(x: jax.Array, w: jax.Array, axis: int) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    rows = x.reshape(-1, x.shape[-1]).astype(w.dtype)
    count = rows.shape[0]
    padded = jnp.pad(rows, ((0, _MIN_ROWS - count), (0, 0))) if count < _MIN_ROWS else rows
    y = _dot(padded, w, 1, axis)[:count]
    return y.reshape(*x.shape[:-1], w.shape[1 - axis]), (rows, w, jnp.zeros((0,), x.dtype))


def _backward(
    axis: int, saved: tuple[jax.Array, ...], dy: jax.Array
) -> tuple[jax.Array, jax.Array]:
    rows, w, like = saved
    d_rows = dy.reshape(-1, dy.shape[-1]).astype(w.dtype)
    dx = _dot(d_rows, w, 1, 1 - axis).reshape(*dy.shape[:-1], w.shape[axis])
    dw = _dot(rows, d_rows, 0, 0) if axis == 0 else _dot(d_rows, rows, 0, 0)
    return dx.astype(like.dtype), dw.astype(w.dtype)


_product.defvjp(_forward, _backward)


@jax.custom_vjp
def adapted_matmul(x: jax.Array, inner: jax.Array, w: jax.Array, b: jax.Array) -> jax.Array:
    """x W + inner B in one product: [x, inner] [W; B]. Float32 [..., out].

    x [..., in], inner [..., R], W [in, out] frozen, B [R, out] in W's dtype. A thin product of its
    own would cost as much as writing its output, which is as wide as the large product's.
    """
    return _adapted_forward(x, inner, w, b)[0]


def _adapted_forward(
    x: jax.Array, inner: jax.Array, w: jax.Array, b: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    joined = jnp.concatenate([x.astype(w.dtype), inner.astype(w.dtype)], axis=-1)
    y = matmul(joined, jnp.concatenate([w, b]))
    return y, (joined, w, b, jnp.zeros((0,), x.dtype), jnp.zeros((0,), inner.dtype))


def _adapted_backward(
    saved: tuple[jax.Array, ...], dy: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    joined, w, b, like_x, like_inner = saved
    width = w.shape[0]
    flat = joined.reshape(-1, joined.shape[-1])
    d_rows = dy.reshape(-1, dy.shape[-1]).astype(w.dtype)
    d_joined = _dot(d_rows, jnp.concatenate([w, b]), 1, 1).reshape(joined.shape)
    dw = _dot(flat[:, :width], d_rows, 0, 0).astype(w.dtype)
    db = _dot(flat[:, width:], d_rows, 0, 0).astype(b.dtype)
    dx, d_inner = d_joined[..., :width], d_joined[..., width:]
    return dx.astype(like_x.dtype), d_inner.astype(like_inner.dtype), dw, db


adapted_matmul.defvjp(_adapted_forward, _adapted_backward)


@jax.custom_vjp
def swiglu(gate: jax.Array, up: jax.Array, like: jax.Array) -> jax.Array:
    """silu(gate) · up, in the dtype of `like`, the weights that read it.

    Keeps gate and up for the backward pass in that dtype and nothing else: the widest values of a
    block are those whose storing costs most.
    """
    return _swiglu_forward(gate, up, like)[0]


def _swiglu_forward(
    gate: jax.Array, up: jax.Array, like: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    out = (jax.nn.silu(gate) * up).astype(like.dtype)
    return out, (gate.astype(like.dtype), up.astype(like.dtype), like)


def _swiglu_backward(
    saved: tuple[jax.Array, ...], d_out: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    gate, up, like = (saved[0].astype(jnp.float32), saved[1].astype(jnp.float32), saved[2])
    d_out = d_out.astype(jnp.float32)
    sigmoid = jax.nn.sigmoid(gate)
    d_up = d_out * gate * sigmoid
    d_gate = d_out * up * sigmoid * (1 + gate * (1 - sigmoid))
    return d_gate, d_up, jnp.zeros_like(like)


swiglu.defvjp(_swiglu_forward, _swiglu_backward)


def rms_norm(x: jax.Array, scale: jax.Array, eps: float) -> jax.Array:
    """Root-mean-square norm over the last axis, in float32: x / sqrt(mean(x²) + eps) · scale."""
    x = x.astype(jnp.float32)
    return x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + eps) * scale


def rotary_table(positions: jax.Array, spec: ModelSpec) -> tuple[jax.Array, jax.Array]:
    """cos and sin of the rotary angles, float32 [..., H / 2] for integer positions [...].

    Angle of pair i at position p: p · base^(-2i / H), with Llama-3's frequency scaling where the
    backbone has it: wavelengths beyond the original context are stretched by `factor`, those well
    inside it are kept, and those between are interpolated.
    """
    half = spec.head_width // 2
    frequency = spec.rope_base ** (-jnp.arange(half, dtype=jnp.float32) / half)
    if spec.rope_scaling is not None:
        s = spec.rope_scaling
        wavelength = 2 * jnp.pi / frequency
        blend = (s.original_max_positions / wavelength - s.low_freq_factor) / (
            s.high_freq_factor - s.low_freq_factor
        )
        blend = jnp.clip(blend, 0.0, 1.0)
        frequency = frequency * (blend + (1 - blend) / s.factor)
    angle = positions[..., None].astype(jnp.float32) * frequency
    return jnp.cos(angle), jnp.sin(angle)


def rotate(x: jax.Array, table: tuple[jax.Array, jax.Array]) -> jax.Array:
    """Rotates the pairs (i, i + H/2) of x [..., heads, H] by the angles of its position."""
    cos, sin = table[0][..., None, :], table[1][..., None, :]
    first, second = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)
