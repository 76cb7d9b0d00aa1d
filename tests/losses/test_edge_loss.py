"""Eqs. 7 and 8 against plain NumPy, and their gradients where there is nothing to learn."""

from functools import partial

import jax
import numpy as np
import pytest

from graft_jax.losses import edges

edge_loss = jax.jit(edges.edge_loss)
edge_scores = edges.edge_scores

RNG = np.random.default_rng(0)
HIDDEN = RNG.standard_normal((2, 3, 6)).astype(np.float32)
ROWS = RNG.standard_normal((5, 6)).astype(np.float32)
W_H, W_E = (RNG.standard_normal((6, 4)).astype(np.float32) for _ in range(2))
GAMMA = 0.1

SCORES = (3 * RNG.standard_normal((3, 4, 5))).astype(np.float32)
# Three paths: the last position of the first is a sink; the last path is all padding.
CANDIDATES = np.array([RNG.permutation(5)[:4] for _ in range(12)]).reshape(3, 4, 4)
PRESENT = np.ones((3, 4, 4), bool)
PRESENT[0, 1, 3] = PRESENT[1, 2, 2:] = False
PRESENT[0, 3] = PRESENT[1, 3] = PRESENT[2] = False
POSITIVE = np.zeros((3, 4, 4), bool)
POSITIVE[..., 0] = POSITIVE[0, 0, 1] = POSITIVE[1, 1, :3] = True
POSITIVE &= PRESENT


def test_scores_are_scaled_cosines_of_the_projections() -> None:
    found = edge_scores(HIDDEN, ROWS, W_H, W_E, GAMMA)
    assert found.shape == (2, 3, 5)
    for b, r, j in np.ndindex(2, 3, 5):
        state, key = HIDDEN[b, r] @ W_H, ROWS[j] @ W_E
        cosine = state @ key / np.linalg.norm(state) / np.linalg.norm(key)
        assert float(found[b, r, j]) == pytest.approx(cosine / GAMMA, abs=1e-4)


def test_the_loss_averages_over_successors_then_positions_then_paths() -> None:
    paths = []
    for b in range(3):
        positions = []
        for r in range(4):
            present = CANDIDATES[b, r][PRESENT[b, r]]
            successors = CANDIDATES[b, r][POSITIVE[b, r]]
            if len(successors):
                normaliser = np.log(np.exp(SCORES[b, r, present]).sum())
                positions.append(np.mean([normaliser - SCORES[b, r, j] for j in successors]))
        if positions:
            paths.append(np.mean(positions))
    total, count = edge_loss(SCORES, CANDIDATES, POSITIVE, PRESENT)
    assert len(paths) == count == 2
    assert float(total) == pytest.approx(sum(paths), rel=1e-5)


def test_paths_in_two_batches_and_candidates_in_another_order_give_the_same() -> None:
    whole = edge_loss(SCORES, CANDIDATES, POSITIVE, PRESENT)
    parts = [edge_loss(SCORES[b], CANDIDATES[b], POSITIVE[b], PRESENT[b]) for b in ([0], [1, 2])]
    np.testing.assert_allclose(whole, np.sum(parts, axis=0), rtol=1e-6)
    turned = [array[..., ::-1] for array in (CANDIDATES, POSITIVE, PRESENT)]
    np.testing.assert_allclose(edge_loss(SCORES, *turned), whole, rtol=1e-6)


def test_filling_has_no_say() -> None:
    other = np.where(PRESENT, CANDIDATES, (CANDIDATES + 1) % 5)
    whole = edge_loss(SCORES, CANDIDATES, POSITIVE, PRESENT)
    np.testing.assert_array_equal(edge_loss(SCORES, other, POSITIVE, PRESENT), whole)


NOTHING = np.zeros_like(PRESENT)


@pytest.mark.parametrize(
    ("positive", "present"),
    [(POSITIVE, PRESENT), (NOTHING, NOTHING), (NOTHING, PRESENT), (PRESENT, PRESENT)],
    ids=["some", "no candidates", "no successors", "successors alone"],
)
def test_gradients_are_finite(positive: np.ndarray, present: np.ndarray) -> None:
    """Also for hidden states and rows of length zero."""
    hidden = RNG.standard_normal((3, 4, 6)).astype(np.float32)
    hidden[0, 0] = 0
    rows = np.concatenate([ROWS[:4], np.zeros((1, 6), np.float32)])

    def loss(hidden, rows, w_h, w_e):  # type: ignore[no-untyped-def]
        scores = edge_scores(hidden, rows, w_h, w_e, GAMMA)
        return edge_loss(scores, CANDIDATES, positive, present)

    (total, count), pull = jax.vjp(jax.jit(loss), hidden, rows, W_H, W_E)
    grads = pull((np.float32(1), np.float32(0)))
    assert np.isfinite(total)
    assert all(np.isfinite(g).all() for g in grads)
    if not positive.any():
        assert (total, count) == (0, 0)
        assert not any(np.asarray(g).any() for g in grads)


def test_a_step_against_the_gradient_brings_successors_up() -> None:
    loss = partial(edge_loss, candidates=CANDIDATES, positive=POSITIVE, present=PRESENT)
    grads = np.asarray(jax.grad(lambda scores: loss(scores)[0])(SCORES))
    successor, negative = CANDIDATES[0, 0, 0], CANDIDATES[0, 0, 2]
    assert grads[0, 0, successor] < 0 < grads[0, 0, negative]


def test_bad_input_is_named() -> None:
    with pytest.raises(ValueError, match=r"\(3, 4, 4\).*\(3, 4, 3\)"):
        edge_loss(SCORES, CANDIDATES, POSITIVE[..., :3], PRESENT)
    with pytest.raises(ValueError, match=r"temperature .* 0"):
        edge_scores(HIDDEN, ROWS, W_H, W_E, 0.0)
