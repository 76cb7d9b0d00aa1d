"""Meshes and layouts, and what cannot be laid out."""

import jax
import numpy as np
import pytest

from graft_jax.errors import GraftError
from graft_jax.sharding import base_sharding, make_mesh, place_rows


def test_one_size_takes_what_is_left() -> None:
    assert dict(make_mesh().shape) == {"data": 4, "fsdp": 1, "tensor": 1}
    assert dict(make_mesh(1, -1, 2).shape) == {"data": 1, "fsdp": 2, "tensor": 2}
    assert make_mesh(2).size == 2


@pytest.mark.parametrize("sizes", [(8, 1, 1), (-1, 3, 1), (-1, -1, 1), (0, 1, 1), (-2, 1, 1)])
def test_sizes_that_do_not_fit_are_refused(sizes: tuple[int, int, int]) -> None:
    with pytest.raises(GraftError, match="mesh data"):
        make_mesh(*sizes)


def test_what_an_axis_does_not_divide_is_named() -> None:
    mesh = make_mesh(1, 2, 2)
    assert base_sharding(mesh, "q", (4, 6)).shard_shape((4, 6)) == (2, 3)
    assert base_sharding(mesh, "attn_norm", (5,)).shard_shape((5,)) == (5,)
    with pytest.raises(GraftError, match=r"'q' of shape \(4, 5\): mesh axis 'tensor' of 2"):
        base_sharding(mesh, "q", (4, 5))


def test_rows_spread_over_the_devices_that_do_not_split_a_product() -> None:
    mesh = make_mesh(2, 1, 2)
    placed = place_rows(mesh, np.arange(8).reshape(4, 2))
    assert placed.sharding.shard_shape(placed.shape) == (2, 2)
    np.testing.assert_array_equal(jax.device_get(placed), np.arange(8).reshape(4, 2))
    with pytest.raises(GraftError, match="3 rows does not divide over data x fsdp = 2"):
        place_rows(mesh, np.zeros((3, 2)))
