"""Which tools may come next: bits, one gather a step, for 23 tools or 50,000.

A set of tools is uint32 [M / 32]; bit j % 32 of word j // 32 is tool j. Successors are
[M + 1, M / 32]: row 0 before the first tool, row i + 1 after tool i, so that a row's number is the
entry chosen last in the restricted space.
"""

import jax
import jax.numpy as jnp
from flax import struct

from graft_jax.catalog.catalog import Catalog
from graft_jax.catalog.graph import successor_bits, tool_bits


@struct.dataclass
class Index:
    """What of the catalog a jitted program reads.

    valid: uint32 [M / 32], the tools that exist; successors: uint32 [M + 1, M / 32].
    """

    valid: jax.Array
    successors: jax.Array

    @property
    def capacity(self) -> int:
        """M: rows of the tool table, a static number."""
        return self.valid.shape[-1] * 32


def make_index(catalog: Catalog, capacity: int) -> Index:
    """The catalog as the arrays that a jitted program reads."""
    return Index(
        valid=jnp.asarray(tool_bits(range(len(catalog)), capacity)),
        successors=jnp.asarray(successor_bits(catalog, capacity)),
    )


def unpack(bits: jax.Array) -> jax.Array:
    """Words uint32 [..., M / 32] -> bool [..., M]."""
    spread = (bits[..., None] >> jnp.arange(32, dtype=jnp.uint32)) & 1
    return spread.reshape(*bits.shape[:-1], -1).astype(bool)


def allowed_entries(
    index: Index, last: jax.Array, allowed: jax.Array, follow_graph: jax.Array, end: jax.Array
) -> jax.Array:
    """Entries that may follow: bool [..., M + 1].

    last int [...]: the entry chosen last (0 before the first tool); allowed uint32 [..., M / 32]:
    the caller's list; follow_graph bool scalar: only successors of the last tool; end bool [...]:
    whether end-of-plan may come now.
    """
    bits = allowed & index.valid
    bits &= jnp.where(follow_graph, index.successors[last], jnp.uint32(0xFFFFFFFF))
    return jnp.concatenate([end[..., None], unpack(bits)], axis=-1)
