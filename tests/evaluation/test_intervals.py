"""Bootstrap intervals: values, undefined entries, coverage, pairing, seeds."""

import numpy as np
import pytest

from graft_jax.evaluation.intervals import (
    Interval,
    mean_interval,
    paired_interval,
    share_interval,
)

NAN = float("nan")


def test_the_value_is_the_mean_of_the_defined_entries() -> None:
    interval = mean_interval(np.array([1.0, NAN, 0.0, 0.5]), seed=0)
    assert interval.value == 0.5
    assert interval.count == 3
    assert interval.low is not None
    assert interval.high is not None
    assert 0.0 <= interval.low < 0.5 < interval.high <= 1.0


@pytest.mark.parametrize("values", [np.array([]), np.array([NAN, NAN])])
def test_a_mean_of_nothing_is_undefined_not_zero(values: np.ndarray) -> None:
    assert mean_interval(values, seed=0) == Interval(None, None, None, 0)


def test_a_constant_has_no_spread() -> None:
    assert mean_interval(np.ones(7), seed=3) == Interval(1.0, 1.0, 1.0, 7)


def test_the_seed_fixes_the_interval_and_another_seed_moves_it() -> None:
    values = np.random.default_rng(1).random(50)
    assert mean_interval(values, seed=4) == mean_interval(values, seed=4)
    assert mean_interval(values, seed=4) != mean_interval(values, seed=5)


def test_the_width_is_that_of_the_normal_approximation() -> None:
    values = (np.random.default_rng(0).random(500) < 0.6).astype(float)
    interval = mean_interval(values, seed=0)
    expected = 2 * 1.96 * values.std() / np.sqrt(500)
    assert interval.high - interval.low == pytest.approx(expected, rel=0.1)


def test_the_interval_covers_the_true_mean_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(7)
    samples = (rng.random((300, 120)) < 0.5).astype(float)
    covered = 0
    for seed, sample in enumerate(samples):
        interval = mean_interval(sample, seed=seed, resamples=400)
        covered += interval.low <= 0.5 <= interval.high
    assert 0.90 <= covered / 300 <= 0.99


def test_a_pooled_share_weighs_examples_by_their_denominator() -> None:
    interval = share_interval(np.array([1.0, 0.0, 0.0]), np.array([1.0, 9.0, 0.0]), seed=0)
    assert interval.value == pytest.approx(0.1)
    assert interval.count == 2


def test_slabs_cover_every_resample() -> None:
    values = np.random.default_rng(2).random(30_000)  # more than one slab
    interval = mean_interval(values, seed=0, resamples=100)
    assert interval.high - interval.low == pytest.approx(
        2 * 1.96 * values.std() / np.sqrt(30_000), rel=0.35
    )


def test_pairing_takes_out_what_both_share() -> None:
    hardness = np.random.default_rng(0).random(400)
    paired = paired_interval(hardness + 0.01, hardness, seed=0)
    assert paired.value == pytest.approx(0.01)
    assert paired.low == pytest.approx(0.01)
    assert paired.high == pytest.approx(0.01)


def test_an_array_does_not_differ_from_itself_and_the_sign_follows_the_order() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random(60), rng.random(60)
    assert paired_interval(a, a, seed=0) == Interval(0.0, 0.0, 0.0, 60)
    forth, back = paired_interval(a, b, seed=0), paired_interval(b, a, seed=0)
    assert forth.value == pytest.approx(-back.value)
    assert forth.low == pytest.approx(-back.high)


def test_a_paired_difference_is_that_of_the_two_reported_means() -> None:
    a, b = np.array([1.0, NAN, 0.0, 1.0]), np.array([NAN, 1.0, 0.0, 0.0])
    interval = paired_interval(a, b, seed=0)
    assert interval.value == pytest.approx(2 / 3 - 1 / 3)
    assert interval.count == 2
    assert paired_interval(np.full(4, NAN), b, seed=0) == Interval(None, None, None, 0)


def test_arrays_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\(3,\).*\(2,\)"):
        paired_interval(np.ones(3), np.ones(2), seed=0)
