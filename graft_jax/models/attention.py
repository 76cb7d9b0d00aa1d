"""Grouped-query attention and the rules of who sees whom. Knows nothing of weights.

Query heads N are held as [K, G]: K key/value heads, G = N / K queries to each.
"""

import jax
import jax.numpy as jnp

_MASKED = -1e30  # finite: a row that sees nothing gives a uniform softmax, not NaN


def visible(
    segments: jax.Array,
    positions: jax.Array,
    branches: jax.Array | None = None,
    window: int | None = None,
) -> jax.Array:
    """Which positions see which: bool [B, T (query), T (key)].

    A position sees itself and earlier columns of its own segment (0 is padding and sees nothing
    but itself). With `branches` [B, T], alternatives continue one trunk: a position sees the trunk
    (branch 0) and its own branch, never another one. `window` limits how many positions back it
    looks (positions [B, T], which for branches are not the columns).
    """
    length = segments.shape[1]
    column = jnp.arange(length)
    seen = (column[:, None] >= column)[None] & (segments[:, :, None] == segments[:, None, :])
    if window is not None:
        seen &= positions[:, :, None] - positions[:, None, :] < window
    if branches is not None:
        same = branches[:, :, None] == branches[:, None, :]
        seen &= same | (branches[:, None, :] == 0)
    return seen & (segments[:, None, :] > 0) | jnp.eye(length, dtype=bool)[None]


def attend(q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array) -> jax.Array:
    """Softmax attention. q [B, T, N, H], k and v [B, S, K, H], mask bool [B, T, S] -> [B, T, N, H].

    Products in k's dtype with float32 accumulation; scaling and softmax in float32.
    """
    scores = _scores(q, k)
    scores = jnp.where(mask[:, None, None], scores, _MASKED)
    weights = jax.nn.softmax(scores, axis=-1).astype(v.dtype)
    out = jnp.einsum("bkgts,bskh->btkgh", weights, v, preferred_element_type=jnp.float32)
    return out.reshape(q.shape)


def attend_continuations(
    q: jax.Array,
    prompt: tuple[jax.Array, jax.Array],
    own: tuple[jax.Array, jax.Array],
    prompt_mask: jax.Array,
    own_mask: jax.Array,
) -> jax.Array:
    """One decoding step of C continuations of each prompt; the prompt is held once, not C times.

    q [B, C, N, H]; prompt keys and values [B, T, K, H] with prompt_mask [B, T]; own keys and
    values [B, C, S, K, H] with own_mask bool [S]: the steps made so far. Returns [B, C, N, H].
    """
    b, c, n, h = q.shape
    keys, values = own
    steps, kv = keys.shape[2], keys.shape[3]
    to_prompt = _scores(q, prompt[0])  # [B, K, G, C, T]
    to_prompt = jnp.where(prompt_mask[:, None, None, None, :], to_prompt, _MASKED)
    grouped = q.astype(keys.dtype).reshape(b, c, kv, n // kv, h)
    to_own = jnp.einsum("bckgh,bcskh->bkgcs", grouped, keys, preferred_element_type=jnp.float32)
    to_own = jnp.where(own_mask, to_own * h**-0.5, _MASKED)
    weights = jax.nn.softmax(jnp.concatenate([to_prompt, to_own], axis=-1), axis=-1)
    weights = weights.astype(values.dtype)
    out = jnp.einsum(
        "bkgct,btkh->bckgh", weights[..., :-steps], prompt[1], preferred_element_type=jnp.float32
    ) + jnp.einsum(
        "bkgcs,bcskh->bckgh", weights[..., -steps:], values, preferred_element_type=jnp.float32
    )
    return out.reshape(b, c, n, h)


def _scores(q: jax.Array, k: jax.Array) -> jax.Array:
    """Scaled products q · k / √H: [B, T, N, H] and [B, S, K, H] -> float32 [B, K, G, T, S]."""
    b, t, n, h = q.shape
    kv = k.shape[2]
    grouped = q.astype(k.dtype).reshape(b, t, kv, n // kv, h)
    scores = jnp.einsum("btkgh,bskh->bkgts", grouped, k, preferred_element_type=jnp.float32)
    return scores * h**-0.5
