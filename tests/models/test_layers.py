"""The parts of a block and their hand-written backward passes, against plain formulas."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpy_llama
import pytest
import tiny

from graft_jax.models.attention import attend, visible
from graft_jax.models.layers import (
    adapted_matmul,
    matmul,
    matmul_rows,
    rms_norm,
    rotary_table,
    rotate,
    swiglu,
)

DTYPES = [jnp.float32, jnp.bfloat16]


def random(*shape: int, seed: int = 0, dtype=jnp.float32) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), dtype)


def products(function, *args):
    """Value and vector-Jacobian products for one fixed cotangent, as one compiled program."""

    @jax.jit
    def run(*args):
        value, pull = jax.vjp(function, *args)
        return value, pull(random(*value.shape, seed=9).astype(value.dtype))

    return run(*args)


def rounded(x: jax.Array, dtype) -> np.ndarray:
    return np.asarray(x.astype(dtype), np.float64)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [(1,), (2, 3), (5,)])
@pytest.mark.parametrize("by_rows", [False, True])
def test_a_product_and_its_backward_pass_are_the_plain_ones(rows, by_rows: bool, dtype) -> None:
    x = random(*rows, 7)
    w = random(*((6, 7) if by_rows else (7, 6)), seed=1, dtype=dtype)
    value, (dx, dw) = products(matmul_rows if by_rows else matmul, x, w)
    # What the products read is rounded to the weight's dtype; they are summed in float32.
    plain_x, plain_w = rounded(x, dtype), np.asarray(w, np.float64)
    plain_w = plain_w.T if by_rows else plain_w
    dy = rounded(random(*rows, 6, seed=9), dtype)
    assert value.dtype == dx.dtype == jnp.float32
    assert dw.dtype == dtype
    np.testing.assert_allclose(value, plain_x @ plain_w, atol=1e-5)
    np.testing.assert_allclose(dx, dy @ plain_w.T, atol=1e-5)
    wanted = plain_x.reshape(-1, 7).T @ dy.reshape(-1, 6)
    wanted = wanted.T if by_rows else wanted
    rounding = 1e-5 if dtype == jnp.float32 else 2**-8
    np.testing.assert_allclose(np.asarray(dw, np.float64), wanted, rtol=rounding, atol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_adapted_product_and_its_backward_pass_are_the_plain_ones(dtype) -> None:
    x, inner = random(2, 3, 7), random(2, 3, 2, seed=1)
    w, b = random(7, 6, seed=2, dtype=dtype), random(2, 6, seed=3, dtype=dtype)
    value, grads = products(adapted_matmul, x, inner, w, b)
    read = [rounded(array, dtype) for array in (x, inner, w, b)]
    dy = rounded(random(2, 3, 6, seed=9), dtype)
    flat = dy.reshape(-1, 6)
    np.testing.assert_allclose(value, read[0] @ read[2] + read[1] @ read[3], atol=1e-5)
    wanted = [
        dy @ read[2].T,
        dy @ read[3].T,
        read[0].reshape(-1, 7).T @ flat,
        read[1].reshape(-1, 2).T @ flat,
    ]
    assert [g.dtype for g in grads] == [jnp.float32, jnp.float32, dtype, dtype]
    for grad, plain, array in zip(grads, wanted, (x, inner, w, b), strict=True):
        rounding = 2**-8 if array.dtype == jnp.bfloat16 else 1e-5
        np.testing.assert_allclose(np.asarray(grad, np.float64), plain, rtol=rounding, atol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_gated_unit_and_its_backward_pass_are_the_plain_ones(dtype) -> None:
    gate, up, like = 3 * random(4, 5), random(4, 5, seed=1), jnp.ones((5, 2), dtype)
    value, (d_gate, d_up) = products(lambda g, u: swiglu(g, u, like), gate, up)
    plain, (plain_gate, plain_up) = products(lambda g, u: g / (1 + jnp.exp(-g)) * u, gate, up)
    assert value.dtype == dtype
    tolerance = 1e-5 if dtype == jnp.float32 else 0.04  # of values up to 10, rounded to 2^-8
    for one, other in ((value, plain), (d_gate, plain_gate), (d_up, plain_up)):
        np.testing.assert_allclose(np.asarray(one, np.float64), other, atol=tolerance)


def test_the_norm_is_numpys() -> None:
    x, scale = 10 * random(3, 8), random(8, seed=1)
    np.testing.assert_allclose(
        rms_norm(x, scale, 1e-5),
        numpy_llama.rms_norm(*map(np.asarray, (x, scale)), 1e-5),
        rtol=1e-5,
    )
    assert np.isfinite(jax.grad(lambda x: rms_norm(x, scale, 1e-5).sum())(jnp.zeros((2, 8)))).all()


def test_rotation_keeps_lengths_and_turns_products_by_the_distance_alone() -> None:
    spec = tiny.make_spec()
    q, k = random(spec.head_width), random(spec.head_width, seed=1)
    positions = np.arange(20)

    def turned(x: jax.Array) -> np.ndarray:
        return np.asarray(
            rotate(jnp.broadcast_to(x, (20, 1, spec.head_width)), rotary_table(positions, spec))
        )[:, 0]

    turned_q, turned_k = turned(q), turned(k)
    np.testing.assert_allclose(np.linalg.norm(turned_q, axis=1), np.linalg.norm(q), rtol=1e-5)
    products = turned_q @ turned_k.T
    for distance in range(-5, 6):
        along = np.diagonal(products, distance)
        np.testing.assert_allclose(along, along[0], atol=2e-5)
    assert np.ptp(products) > 0.5


@pytest.mark.parametrize("window", [None, 2])
def test_who_sees_whom(window: int | None) -> None:
    segments = np.array([[0, 1, 1, 1, 1, 1, 2, 2, 0]])
    branches = np.array([[0, 0, 0, 1, 1, 2, 0, 0, 0]])
    positions = np.array([[0, 0, 1, 2, 3, 2, 0, 1, 0]])
    seen = np.asarray(visible(segments, positions, branches, window))[0]
    for i in range(9):
        for j in range(9):
            wanted = i == j or (
                j < i
                and segments[0, i] == segments[0, j] > 0
                and branches[0, j] in (0, branches[0, i])
                and (window is None or positions[0, i] - positions[0, j] < window)
            )
            assert seen[i, j] == wanted, (i, j)


def test_attention_under_a_full_mask_is_finite() -> None:
    q, k, v = random(1, 3, 4, 8), random(1, 3, 2, 8, seed=1), random(1, 3, 2, 8, seed=2)
    nothing = jnp.zeros((1, 3, 3), bool)
    value, grads = products(partial(attend, mask=nothing), q, k, v)
    assert all(np.isfinite(x).all() for x in (value, *grads))
