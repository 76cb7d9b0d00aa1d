"""Seeded bootstrap intervals of means, of pooled shares, and of paired differences. NumPy only.

Every figure here is a share Σ numerators / Σ denominators over examples. A mean that leaves out
undefined (nan) values is the case numerator = value or 0, denominator = 1 or 0; a pooled rate
(hallucinated names over all names) brings its own denominators. Knows nothing of plans or metrics.
"""

import dataclasses
import functools

import numpy as np

RESAMPLES = 2000
LEVEL = 0.95
# Resamples are drawn in slabs of at most this many numbers, so that one takes some 8 MB.
_SLAB = 1_000_000


@dataclasses.dataclass(frozen=True)
class Interval:
    """A figure with its percentile bootstrap interval; all None where it is undefined.

    `count` is the number of examples it stands on (those with a denominator).
    """

    value: float | None
    low: float | None
    high: float | None
    count: int


def mean_interval(
    values: np.ndarray, *, seed: int, resamples: int = RESAMPLES, level: float = LEVEL
) -> Interval:
    """Mean of `values` [n] over its defined (not nan) entries; every resample redraws all n."""
    return share_interval(*as_share(values), seed=seed, resamples=resamples, level=level)


def share_interval(
    numerators: np.ndarray,
    denominators: np.ndarray,
    *,
    seed: int,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
) -> Interval:
    """Σ `numerators` / Σ `denominators` (both [n], no nan), examples resampled together."""
    columns = _columns(numerators, denominators)
    count = int(np.count_nonzero(columns[1]))
    if count == 0:
        return Interval(None, None, None, 0)
    top, bottom = _resampled_sums(columns, seed, resamples)
    return _interval(float(columns[0].sum() / columns[1].sum()), _share(top, bottom), level, count)


def paired_interval(
    values_a: np.ndarray,
    values_b: np.ndarray,
    *,
    seed: int,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
) -> Interval:
    """mean(`values_a`) - mean(`values_b`), both [n] over the same examples in the same order.

    An example is drawn with both its values, so that what makes it hard cancels. Each mean leaves
    out its own undefined entries: the value is the difference of the two reported means.
    """
    return paired_share_interval(
        as_share(values_a), as_share(values_b), seed=seed, resamples=resamples, level=level
    )


def paired_share_interval(
    share_a: tuple[np.ndarray, np.ndarray],
    share_b: tuple[np.ndarray, np.ndarray],
    *,
    seed: int,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
) -> Interval:
    """`paired_interval` for (numerators, denominators) pairs; `count`: examples defined in both."""
    columns = _columns(*share_a, *share_b)
    totals = columns.sum(axis=1)
    if totals[1] == 0 or totals[3] == 0:
        return Interval(None, None, None, 0)
    sums = _resampled_sums(columns, seed, resamples)
    draws = _share(sums[0], sums[1]) - _share(sums[2], sums[3])
    value = float(totals[0] / totals[1] - totals[2] / totals[3])
    count = int(np.count_nonzero((columns[1] != 0) & (columns[3] != 0)))
    return _interval(value, draws, level, count)


def as_share(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(numerators, denominators) [n] of the mean of `values` [n] over what is not nan."""
    values = np.asarray(values, dtype=np.float64)
    defined = ~np.isnan(values)
    return np.where(defined, values, 0.0), defined.astype(np.float64)


def _columns(*columns: np.ndarray) -> np.ndarray:
    sizes = [np.shape(column) for column in columns]
    if any(size != sizes[0] or len(size) != 1 for size in sizes):
        raise ValueError(f"expected one-dimensional arrays of one length, got shapes {sizes}")
    return np.stack([np.asarray(column, dtype=np.float64) for column in columns])


def _resampled_sums(columns: np.ndarray, seed: int, resamples: int) -> np.ndarray:
    """Sums [k, resamples] of `columns` [k, n] over draws of n examples with replacement."""
    n = columns.shape[1]
    sums = np.empty((len(columns), resamples))
    size = max(1, _SLAB // n)
    for slab, start in enumerate(range(0, resamples, size)):
        stop = min(start + size, resamples)
        times = _times_drawn(seed, slab, n, stop - start)
        # One column at a time: equal columns get bitwise equal sums, and their difference is 0.
        for column, out in zip(columns, sums, strict=True):
            out[start:stop] = times @ column
    return sums


@functools.lru_cache(maxsize=8)  # the many metrics of one slice share their draws
def _times_drawn(seed: int, slab: int, n: int, resamples: int) -> np.ndarray:
    """How often each of n examples is drawn, float64 [resamples, n]; rows sum to n."""
    draws = np.random.default_rng([seed, slab]).integers(0, n, size=(resamples, n))
    draws += n * np.arange(resamples)[:, None]
    times = np.bincount(draws.ravel(), minlength=resamples * n).astype(np.float64)
    times.flags.writeable = False
    return times.reshape(resamples, n)


def _share(top: np.ndarray, bottom: np.ndarray) -> np.ndarray:
    """`top` / `bottom`, nan where a resample caught no example with a denominator."""
    return np.divide(top, bottom, out=np.full_like(top, np.nan), where=bottom != 0)


def _interval(value: float, draws: np.ndarray, level: float, count: int) -> Interval:
    draws = draws[~np.isnan(draws)]
    if draws.size == 0:
        return Interval(value, None, None, count)
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return Interval(value, float(low), float(high), count)
