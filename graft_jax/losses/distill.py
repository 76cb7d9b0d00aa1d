"""On-policy tool context distillation (Eqs. 12 and 13)."""

import jax
import jax.numpy as jnp


def reverse_kl(
    student: jax.Array, teacher: jax.Array, mask: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Eq. 12: mean over rollouts of 1/|ẑ| Σ_k KL(p_k^S ‖ p_k^T), over tools and end-of-plan alone.

    KL(S ‖ T) = Σ_e S_e (log S_e - log T_e), both normalised over the restricted space.
    student, teacher: logits float32 [..., S, M + 1] at the same (rollout, step); no gradient
    reaches the teacher. mask [..., S]: steps up to and including end-of-plan. Returns (sum over
    rollouts of the step mean, number of rollouts with a step).

    Raises:
      ValueError: shapes that do not belong together.
    """
    if student.shape != teacher.shape or student.shape[:-1] != mask.shape:
        raise ValueError(f"student {student.shape}, teacher {teacher.shape}, mask {mask.shape}")
    log_s = jax.nn.log_softmax(student, axis=-1)
    log_t = jax.lax.stop_gradient(jax.nn.log_softmax(teacher, axis=-1))
    divergence = jnp.sum(jnp.exp(log_s) * (log_s - log_t), axis=-1)
    mask = mask.astype(jnp.float32)
    steps = mask.sum(axis=-1)
    per_rollout = jnp.sum(divergence * mask, axis=-1) / jnp.maximum(steps, 1.0)
    return jnp.sum(per_rollout), jnp.sum(steps > 0).astype(jnp.float32)


def combined_loss(sft: jax.Array, opd: jax.Array, weight: float) -> jax.Array:
    """Eq. 13: L = L_sft + λ L_opd, of the token mean and the rollout mean; λ is `weight`."""
    return sft + weight * opd
