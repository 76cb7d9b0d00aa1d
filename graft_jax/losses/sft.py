"""The masked token loss of grounding and SFT (Eqs. 5 and 9)."""

import jax
import jax.numpy as jnp
import optax


def token_loss(
    logits: jax.Array, labels: jax.Array, mask: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Negative log-likelihood of the labels: L = - Σ log π(z_k | prompt, z_<k).

    logits float32 [..., E], integer labels [...] into E, mask [...] (1 counts, 0 does not).
    Returns (sum, count) as float32 scalars; the mean is sum / count, divided once by the caller, so
    that accumulation over batches and packing leave it unchanged. Labels under a zero mask may be
    anything within range.

    Raises:
      ValueError: shapes that do not belong together.
    """
    if logits.shape[:-1] != labels.shape or labels.shape != mask.shape:
        raise ValueError(f"logits {logits.shape}, labels {labels.shape}, mask {mask.shape}")
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
    mask = mask.astype(jnp.float32)
    return jnp.sum(losses * mask), jnp.sum(mask)
