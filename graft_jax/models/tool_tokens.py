"""Tool tokens (Eq. 3): rows of their own beside the vocabulary, and the logits they give.

V' = V_LM ∪ A: token ids below V are the backbone's, V + i is tool i. The backbone's matrices are
never resized; a tool is a row written into a table of capacity M, which compiles nothing.
The restricted space has M + 1 entries: 0 is end-of-plan (the backbone's own EOS row, frozen),
i + 1 is tool i.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from graft_jax.models.layers import matmul_rows

MASKED = -1e30  # logit of what may not be chosen; finite, so that gradients are


@struct.dataclass
class ToolRows:
    """Trained rows, float32: embed [M, D] as input; head [M, D] as output, None where tied."""

    embed: jax.Array
    head: jax.Array | None

    @property
    def output(self) -> jax.Array:
        """The rows that score tools [M, D]: with a tied backbone the input rows themselves."""
        return self.embed if self.head is None else self.head


def init_tool_rows(
    base: dict[str, Any], token_ids: Sequence[Sequence[int]], capacity: int
) -> ToolRows:
    """Rows from metadata: the mean of the base rows of the tokens of "name: description".

    Unused rows up to `capacity` are zero. `token_ids[i]` are tool i's (never empty).
    """

    def means(matrix: jax.Array) -> jax.Array:
        used = sorted({i for ids in token_ids for i in ids})
        column = {token: j for j, token in enumerate(used)}
        weights = np.zeros((capacity, len(used)), np.float32)
        for row, ids in enumerate(token_ids):
            for token in ids:
                weights[row, column[token]] += 1.0 / len(ids)
        return jnp.asarray(weights) @ matrix[jnp.asarray(used)].astype(jnp.float32)

    head = base.get("head")
    return ToolRows(embed=means(base["embed"]), head=None if head is None else means(head))


def entry_tokens(entries: jax.Array, eos_id: int, vocabulary: int) -> jax.Array:
    """Token ids of restricted-space entries: 0 is the end-of-plan token, i + 1 is V + i."""
    return jnp.where(entries == 0, eos_id, vocabulary + entries - 1)


def embed(base: dict[str, Any], tools: ToolRows, tokens: jax.Array) -> jax.Array:
    """Input rows of token ids [...] (V + i is tool i): float32 [..., D]."""
    vocabulary = base["embed"].shape[0]
    is_tool = tokens >= vocabulary
    words = base["embed"][jnp.where(is_tool, 0, tokens)].astype(jnp.float32)
    tool = tools.embed[jnp.where(is_tool, tokens - vocabulary, 0)]
    return jnp.where(is_tool[..., None], tool, words)


def restricted_logits(
    base: dict[str, Any], tools: ToolRows, hidden: jax.Array, eos_id: int, valid: jax.Array
) -> jax.Array:
    """Logits over end-of-plan and the M tools: float32 [..., M + 1]. Rows not `valid` masked."""
    matrix = base.get("head", base["embed"])
    rows = jnp.concatenate([matrix[eos_id][None], tools.output.astype(matrix.dtype)])
    logits = matmul_rows(hidden, rows)
    return jnp.where(jnp.concatenate([jnp.ones(1, bool), valid]), logits, MASKED)


def full_logits(
    base: dict[str, Any], tools: ToolRows, hidden: jax.Array, words: int, valid: jax.Array
) -> jax.Array:
    """Logits over V' = vocabulary and tools: float32 [..., V + M].

    `words` is the number of real vocabulary entries: the backbone's padding rows beyond it, and
    tool rows not `valid` [M], are masked.
    """
    matrix = base.get("head", base["embed"])
    text = matmul_rows(hidden, matrix)
    tool = matmul_rows(hidden, tools.output.astype(matrix.dtype))
    real = jnp.concatenate([jnp.arange(matrix.shape[0]) < words, valid])
    return jnp.where(real, jnp.concatenate([text, tool], axis=-1), MASKED)
