"""The adapter as a flat file, and a fresh one."""

import jax
import numpy as np
import pytest
import tiny

from graft_jax.errors import GraftError
from graft_jax.models.adapter import flatten_adapter, init_adapter, unflatten_adapter


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("targets", [("q", "v"), ("q", "k", "v", "o", "gate", "up", "down")])
def test_flat_and_back(tied: bool, targets: tuple[str, ...]) -> None:
    adapter = tiny.make_adapter(tiny.make_spec(tied=tied), targets=targets)
    flat = flatten_adapter(adapter)
    again = unflatten_adapter(flat, adapter.lora.scale, "adapter.safetensors")
    assert jax.tree.structure(again) == jax.tree.structure(adapter)
    jax.tree.map(np.testing.assert_array_equal, again, adapter)
    assert ("tools.head" in flat) != tied


def test_more_than_nine_layers_keep_their_order() -> None:
    adapter = tiny.make_adapter(tiny.make_spec(layers=12), targets=("o",))
    again = unflatten_adapter(flatten_adapter(adapter), adapter.lora.scale, "file")
    jax.tree.map(np.testing.assert_array_equal, again, adapter)


@pytest.mark.parametrize("lost", ["tools.embed", "edges.hidden", "edges.row", "lora.1"])
def test_a_file_that_lacks_a_group_is_refused_by_name(lost: str) -> None:
    flat = flatten_adapter(tiny.make_adapter(tiny.make_spec()))
    rest = {name: array for name, array in flat.items() if not name.startswith(lost)}
    with pytest.raises(GraftError, match=r"adapter\.safetensors: .*missing"):
        unflatten_adapter(rest, 3.0, "adapter.safetensors")


def test_a_seed_fixes_a_fresh_adapter() -> None:
    spec = tiny.make_spec(layers=1)
    base = tiny.make_base(spec)
    one, two, other = (
        init_adapter(jax.random.key(seed), base, spec, [[3, 4], [5]], 32, rank=2, projection=8)
        for seed in (0, 0, 1)
    )
    jax.tree.map(np.testing.assert_array_equal, one, two)
    assert np.abs(one.edges.hidden - other.edges.hidden).max() > 0
    np.testing.assert_array_equal(one.tools.embed, other.tools.embed)  # metadata, not chance
