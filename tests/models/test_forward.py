"""The transformer against a plain NumPy one, for every kind of backbone it takes."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy_llama
import pytest
import tiny

from graft_jax.models.passes import sequence_pass
from graft_jax.models.spec import RopeScaling

# Of this tiny head's four wavelengths one is kept, one is interpolated and two are stretched.
LLAMA3 = RopeScaling(
    factor=8.0, low_freq_factor=1.0, high_freq_factor=8.0, original_max_positions=128
)
VARIANTS: dict[str, dict[str, Any]] = {
    "llama": {},
    "untied": {"tied": False},
    "one query head a key head": {"kv_heads": 4},
    "one key head": {"kv_heads": 1},
    "heads wider than D / N": {"head_width": 16},
    "llama 3 positions": {"rope_scaling": LLAMA3, "rope_base": 500.0},
    "qwen 2": {"qkv_bias": True},
    "qwen 3": {"qk_norm": True},
    "mistral": {"sliding_window": 5},
}
TOKENS = [1, 40, 77, 258, 300, 12, 331, 300, 5, 99, 2, 310, 64]  # tools (300 and above) among words

sequences = jax.jit(sequence_pass, static_argnames="spec")


def arrays(rows: list[list[int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tokens, positions and segments of rows of one length, one segment each."""
    tokens = np.array(rows)
    return tokens, np.arange(tokens.shape[1]) + np.zeros_like(tokens), np.ones_like(tokens)


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS.keys())
def test_hidden_states_equal_numpys(changes: dict[str, Any]) -> None:
    spec = tiny.make_spec(layers=2, **changes)
    params = tiny.make_params(spec)
    tokens, positions, segments = arrays([TOKENS])
    hidden, penultimate = sequences(params, spec, tokens, positions, segments)
    wanted, wanted_before = numpy_llama.forward(params, spec, TOKENS)
    assert hidden.dtype == penultimate.dtype == jnp.float32
    np.testing.assert_allclose(hidden[0], wanted, atol=2e-5)
    np.testing.assert_allclose(penultimate[0], wanted_before, atol=2e-5)


def test_bfloat16_stays_near_float64() -> None:
    spec = tiny.make_spec()
    params = tiny.make_params(spec, jnp.bfloat16)
    tokens, positions, segments = arrays([TOKENS])
    hidden, _ = sequences(params, spec, tokens, positions, segments)
    wanted, _ = numpy_llama.forward(params, spec, TOKENS)
    assert hidden.dtype == jnp.float32
    # bfloat16 has 8 bits: each of 3 layers adds an error of about 2^-8 of values of size one.
    error = np.asarray(hidden[0]) - wanted
    assert np.sqrt((error**2).mean()) < 0.03


def test_only_distances_between_positions_matter() -> None:
    spec = tiny.make_spec(sliding_window=5)
    params = tiny.make_params(spec)
    tokens, positions, segments = arrays([TOKENS, TOKENS])
    positions += np.array([[0], [40]])
    hidden, _ = sequences(params, spec, tokens, positions, segments)
    np.testing.assert_allclose(hidden[0], hidden[1], atol=5e-5)  # angles of 52 round to 4e-6


def test_the_future_is_not_seen() -> None:
    spec = tiny.make_spec()
    params = tiny.make_params(spec)
    tokens, positions, segments = arrays([TOKENS, TOKENS[:7] + [9] * (len(TOKENS) - 7)])
    hidden, _ = sequences(params, spec, tokens, positions, segments)
    np.testing.assert_array_equal(hidden[0, :7], hidden[1, :7])
    assert np.abs(hidden[0, 7] - hidden[1, 7]).max() > 0.01
