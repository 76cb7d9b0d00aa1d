"""Graph-token edge reconstruction (Eqs. 7, 8): a tool's successors from its hidden state."""

import jax
import jax.numpy as jnp

_TINY = 1e-12


def _unit(x: jax.Array) -> jax.Array:
    x = x.astype(jnp.float32)
    return x * jax.lax.rsqrt(jnp.maximum(jnp.sum(x * x, axis=-1, keepdims=True), _TINY))


def edge_scores(
    hidden: jax.Array,
    rows: jax.Array,
    hidden_projection: jax.Array,
    row_projection: jax.Array,
    temperature: float,
) -> jax.Array:
    """Eq. 7: s_rj = sim(W_h h_r, W_e e_j) / γ with sim the cosine.

    hidden h [..., D] (residual stream that enters the last block), rows e [M, D] (input rows of the
    tools), W_h `hidden_projection` and W_e `row_projection` [D, P], γ `temperature`. Float32
    [..., M]: the score of every tool as a successor.

    Raises:
      ValueError: a temperature that is not positive.
    """
    if not temperature > 0:
        raise ValueError(f"temperature must be positive, not {temperature}")
    states = _unit(hidden @ hidden_projection)
    keys = _unit(rows @ row_projection)
    return states @ keys.T / temperature


def edge_loss(
    scores: jax.Array,
    candidates: jax.Array,
    positive: jax.Array,
    present: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Eq. 8, averaged over paths: successors against negatives, per position of a sampled path.

    L(ρ) = - 1/|I| Σ_{r in I} 1/|N+(u_r)| Σ_{j in N+(u_r)} log(exp s_rj / Σ_{k in C(u_r)} exp s_rk).

    scores [B, R, M] of all tools; candidates [B, R, C] tool numbers, of which `present` bool
    [B, R, C] are real (the rest is filling) and `positive` bool [B, R, C] are successors. I are the
    positions with a successor. Returns (sum over paths, number of paths with such a position).
    """
    if candidates.shape != positive.shape or candidates.shape != present.shape:
        raise ValueError(f"{candidates.shape}, {positive.shape} and {present.shape} differ")
    chosen = jnp.take_along_axis(scores, candidates, axis=-1)
    chosen = jnp.where(present, chosen, -jnp.inf)
    some = present.any(axis=-1)
    normaliser = jax.nn.logsumexp(jnp.where(some[..., None], chosen, 0.0), axis=-1)
    log_share = jnp.where(present, chosen - normaliser[..., None], 0.0)
    successors = positive.sum(axis=-1)
    counted = successors > 0
    per_position = -jnp.sum(log_share * positive, axis=-1) / jnp.maximum(successors, 1)
    positions = counted.sum(axis=-1)
    per_path = jnp.sum(per_position * counted, axis=-1) / jnp.maximum(positions, 1)
    return jnp.sum(per_path * (positions > 0)), jnp.sum(positions > 0).astype(jnp.float32)
