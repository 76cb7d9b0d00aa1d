"""The order of batches: a pure function in which every row has its turn and fits its bucket."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graft_jax.data.order import BUCKETS, batch_plan, batches_per_epoch, bucket
from graft_jax.errors import GraftError

lengths = st.lists(st.integers(1, 300), min_size=1, max_size=200).map(np.array)
check = settings(max_examples=60, deadline=None)


@check
@given(lengths=lengths, size=st.integers(1, 20), seed=st.integers(0, 9), epoch=st.integers(0, 3))
def test_every_row_has_its_turn(lengths: np.ndarray, size: int, seed: int, epoch: int) -> None:
    plan = batch_plan((seed, 1), epoch, lengths, size)
    assert len(plan) == batches_per_epoch(len(lengths), size)
    assert all(len(rows) == size for _, rows in plan)
    drawn = np.bincount(np.concatenate([rows for _, rows in plan]), minlength=len(lengths))
    assert (drawn >= 1).all()
    assert drawn.sum() - len(lengths) < size  # only the last batch is filled up


@check
@given(lengths=lengths, size=st.integers(1, 20))
def test_a_batchs_bucket_is_the_smallest_that_holds_its_rows(lengths, size: int) -> None:
    for width, rows in batch_plan((0,), 0, lengths, size):
        longest = lengths[rows].max()
        assert width == min(b for b in BUCKETS if b >= longest)


def test_it_is_a_function_of_seed_and_epoch_alone() -> None:
    lengths = np.random.default_rng(0).integers(1, 300, 100)

    def flat(seed: tuple[int, ...], epoch: int) -> list[int]:
        np.random.default_rng().random()  # others may draw meanwhile
        return np.concatenate([rows for _, rows in batch_plan(seed, epoch, lengths, 8)]).tolist()

    assert flat((0, 1), 2) == flat((0, 1), 2)
    orders = [flat((0, 1), 2), flat((0, 1), 3), flat((0, 2), 2), flat((1, 1), 2)]
    assert len(set(map(tuple, orders))) == 4


def test_similar_lengths_share_a_batch() -> None:
    """Padding stays below a fifth of what shuffled rows in full-width batches would have."""
    lengths = np.random.default_rng(0).integers(10, 250, 512)
    plan = batch_plan((0,), 0, lengths, 8)
    padded = sum(width * len(rows) for width, rows in plan)
    assert padded < 1.35 * lengths.sum()
    shuffled = [rows[0] for _, rows in plan]
    assert np.abs(np.corrcoef(np.arange(len(plan)), lengths[shuffled])[0, 1]) < 0.4


def test_what_no_bucket_holds_is_refused() -> None:
    assert bucket(BUCKETS[-1]) == BUCKETS[-1]
    assert bucket(0) == BUCKETS[0]
    with pytest.raises(GraftError, match=rf"20000 tokens .* {BUCKETS[-1]}"):
        bucket(20_000)
