"""Eqs. 12 and 13: values, direction, alignment, and what must not receive a gradient."""

import jax
import numpy as np
import pytest
import tiny

from graft_jax.data.batches import PromptBatch, pad_prompts
from graft_jax.losses import distill
from graft_jax.models.adapter import Params
from graft_jax.models.tool_tokens import MASKED
from graft_jax.training.objectives import plan_logits

reverse_kl = jax.jit(distill.reverse_kl)
RNG = np.random.default_rng(0)
STUDENT, TEACHER = (2 * RNG.standard_normal((3, 2, 4, 6)).astype(np.float32) for _ in range(2))
STEPS = np.array([[4, 2], [1, 3], [2, 0]])  # one rollout has no step at all
MASK = np.arange(4) < STEPS[..., None]


def softmax(x: np.ndarray) -> np.ndarray:
    x = np.exp(x.astype(np.float64))
    return x / x.sum()


def test_it_is_the_mean_over_steps_then_rollouts_of_kl_student_teacher() -> None:
    rollouts = []
    for b, c in np.ndindex(3, 2):
        steps = []
        for k in range(STEPS[b, c]):
            s, t = softmax(STUDENT[b, c, k]), softmax(TEACHER[b, c, k])
            steps.append((s * np.log(s / t)).sum())
        if steps:
            rollouts.append(np.mean(steps))
    total, count = reverse_kl(STUDENT, TEACHER, MASK)
    assert count == len(rollouts) == 5
    assert float(total) == pytest.approx(sum(rollouts), rel=1e-5)


def test_its_direction_by_hand() -> None:
    """KL(student ‖ teacher) of (0.9, 0.1) and (0.5, 0.5) is 0.368; the other way it is 0.511."""
    student, teacher = np.log([[[0.9, 0.1]]]), np.log([[[0.5, 0.5]]])
    total, _ = reverse_kl(student, teacher, np.ones((1, 1)))
    assert float(total) == pytest.approx(0.9 * np.log(1.8) + 0.1 * np.log(0.2), abs=1e-6)
    assert float(total) == pytest.approx(0.36806, abs=1e-5)


def test_a_batch_in_two_parts_gives_the_same_sums() -> None:
    whole = reverse_kl(STUDENT, TEACHER, MASK)
    parts = [reverse_kl(STUDENT[b], TEACHER[b], MASK[b]) for b in ([0], [1, 2])]
    np.testing.assert_allclose(whole, np.sum(parts, axis=0), rtol=1e-6)


def test_steps_after_the_end_have_no_say() -> None:
    other = np.where(MASK[..., None], STUDENT, 50 * RNG.standard_normal(STUDENT.shape))
    other = other.astype(np.float32)
    whole = reverse_kl(STUDENT, TEACHER, MASK)
    np.testing.assert_allclose(reverse_kl(other, TEACHER, MASK), whole, rtol=1e-6)


def test_the_teacher_receives_no_gradient_and_the_student_a_finite_one() -> None:
    # Entries without a tool are masked for both, as in the restricted space.
    student, teacher = (np.where(np.arange(6) < 4, x, MASKED) for x in (STUDENT, TEACHER))
    for mask in (MASK, np.zeros_like(MASK)):
        to_student, to_teacher = jax.grad(
            lambda s, t, mask=mask: reverse_kl(s, t, mask)[0], argnums=(0, 1)
        )(student, teacher)
        assert np.isfinite(to_student).all()
        assert np.asarray(to_student).any() == mask.any()
        assert not np.asarray(to_teacher).any()


def test_the_gradient_vanishes_where_both_agree() -> None:
    total, _ = reverse_kl(STUDENT, STUDENT + 3.0, MASK)
    assert abs(float(total)) <= 1e-6
    grads = jax.grad(lambda s: reverse_kl(s, STUDENT + 3.0, MASK)[0])(STUDENT)
    np.testing.assert_allclose(grads, 0, atol=1e-6)


def test_the_combined_objective() -> None:
    assert distill.combined_loss(2.0, 0.5, 0.7) == pytest.approx(2.0 + 0.7 * 0.5)


def test_shapes_that_do_not_belong_together_are_named() -> None:
    with pytest.raises(ValueError, match=r"\(3, 2, 4, 6\).*\(3, 2, 3, 6\)"):
        reverse_kl(STUDENT, TEACHER[:, :, :3], MASK)
    with pytest.raises(ValueError, match=r"\(3, 2, 4, 6\).*\(3, 2, 3\)"):
        reverse_kl(STUDENT, TEACHER, MASK[..., :3])


PROMPTS = [[1, 40, 77, 258, 12], [1, 9, 64, 5, 99, 3, 20]]
PLANS = np.array([[[1, 2, 0], [6, 0, 0]], [[3, 3, 0], [1, 2, 3]]])
PLAN_MASK = np.array([[[1, 1, 1], [1, 1, 0]], [[1, 1, 1], [1, 1, 1]]])
VALID = np.arange(32) < 6


def logits_of(params: Params, prompts: PromptBatch) -> jax.Array:
    spec = tiny.make_spec(layers=2)
    run = jax.jit(plan_logits, static_argnames="spec")
    return run(params, spec, prompts, PLANS, VALID)


def test_equal_contexts_have_no_divergence_whatever_their_padding() -> None:
    """Rows and steps are aligned by their numbers, never by columns."""
    params = tiny.make_params(tiny.make_spec(layers=2))
    narrow = logits_of(params, pad_prompts(PROMPTS, 8))
    wide = pad_prompts(PROMPTS, 32)
    filled = np.where(np.arange(32) < wide.lengths[:, None], wide.ids, 77)
    total, count = reverse_kl(narrow, logits_of(params, wide.replace(ids=filled)), PLAN_MASK)
    assert count == 4
    assert 0 <= float(total) / 4 <= 1e-6
    longer = pad_prompts([[*prompt, 8] for prompt in PROMPTS], 32)
    other, _ = reverse_kl(narrow, logits_of(params, longer), PLAN_MASK)
    assert float(other) / 4 > 1e-3
