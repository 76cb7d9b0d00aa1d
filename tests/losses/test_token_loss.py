"""Eqs. 5 and 9 against plain NumPy."""

import jax
import numpy as np
import pytest

from graft_jax.losses import sft

token_loss = jax.jit(sft.token_loss)


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


LOGITS = 3 * numbers(4, 5, 7)
LABELS = np.random.default_rng(1).integers(0, 7, (4, 5))
MASK = (np.random.default_rng(2).random((4, 5)) < 0.6).astype(np.float32)


def test_it_is_the_summed_negative_log_likelihood() -> None:
    wanted = 0.0
    for b, s in np.argwhere(MASK):
        share = np.exp(LOGITS[b, s]) / np.exp(LOGITS[b, s]).sum()
        wanted -= np.log(share[LABELS[b, s]])
    total, count = token_loss(LOGITS, LABELS, MASK)
    assert float(total) == pytest.approx(wanted, rel=1e-5)
    assert float(count) == MASK.sum()


def test_a_batch_in_two_parts_gives_the_same_sums() -> None:
    whole = token_loss(LOGITS, LABELS, MASK)
    parts = [token_loss(LOGITS[rows], LABELS[rows], MASK[rows]) for rows in ([0], [1, 2, 3])]
    np.testing.assert_allclose(whole, np.sum(parts, axis=0), rtol=1e-6)


def test_what_is_masked_has_no_say() -> None:
    other = np.where(MASK[..., None] > 0, LOGITS, -1e30)
    np.testing.assert_array_equal(
        token_loss(LOGITS, LABELS, MASK), token_loss(other, np.where(MASK > 0, LABELS, 0), MASK)
    )


def test_a_full_mask_gives_zero_and_finite_gradients() -> None:
    nothing = np.zeros_like(MASK)
    total, count = token_loss(LOGITS, LABELS, nothing)
    assert (total, count) == (0, 0)
    # As after masking: entries of -1e30 among the logits.
    logits = np.where(np.arange(7) < 3, LOGITS, -1e30)
    for mask in (nothing, MASK):
        grads = jax.grad(lambda x, mask=mask: token_loss(x, LABELS % 3, mask)[0])(logits)
        assert np.isfinite(grads).all()
        assert not np.asarray(grads)[mask == 0].any()


def test_shapes_that_do_not_belong_together_are_named() -> None:
    with pytest.raises(ValueError, match=r"\(4, 5, 7\).*\(4, 4\)"):
        token_loss(LOGITS, LABELS[:, :4], MASK[:, :4])
    with pytest.raises(ValueError, match=r"\(4, 5\).*\(3, 5\)"):
        token_loss(LOGITS, LABELS, MASK[:3])
