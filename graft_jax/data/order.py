"""The order of batches: a pure function of seed and epoch, so one step number is all its state.

Rows of similar length share a batch; every batch has the width of the smallest bucket that holds
its longest row, and every jitted program is compiled once a bucket at most.
"""

from collections.abc import Sequence

import numpy as np

from graft_jax.errors import GraftError

BUCKETS = (32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 4096, 8192)
STEP_BUCKETS = (8, 16, 32, 64)  # of a plan's steps, its end included
_POOL = 16  # batches whose rows are sorted together: wider saves padding, narrower shuffles better

Batch = tuple[int, np.ndarray]


def bucket(length: int, buckets: Sequence[int] = BUCKETS) -> int:
    """The smallest bucket that holds `length` positions.

    Raises:
      GraftError: none does.
    """
    for width in buckets:
        if length <= width:
            return width
    raise GraftError(f"a sequence of {length} tokens is longer than the largest bucket, {width}")


def batch_plan(
    seed: Sequence[int],
    epoch: int,
    lengths: np.ndarray,
    batch_size: int,
    buckets: Sequence[int] = BUCKETS,
) -> list[Batch]:
    """[(bucket, row ids)] of one epoch: every row once, `batch_size` rows a batch.

    The last batch is filled with rows drawn again, so that every batch has one shape; lengths int
    [rows]. Rows are shuffled, sorted by length within pools, cut into batches, and the batches are
    shuffled again.
    """
    rng = np.random.default_rng((*seed, epoch))
    rows = rng.permutation(len(lengths))
    short = -len(rows) % batch_size
    rows = np.concatenate([rows, rng.choice(len(lengths), short)]) if short else rows
    pool = _POOL * batch_size
    batches = []
    for start in range(0, len(rows), pool):
        chunk = rows[start : start + pool]
        chunk = chunk[np.argsort(lengths[chunk], kind="stable")]
        for first in range(0, len(chunk), batch_size):
            chosen = chunk[first : first + batch_size]
            batches.append((bucket(int(lengths[chosen].max()), buckets), chosen))
    return [batches[i] for i in rng.permutation(len(batches))]


def batches_per_epoch(rows: int, batch_size: int) -> int:
    """Batches of one `batch_plan`."""
    return -(-rows // batch_size)
