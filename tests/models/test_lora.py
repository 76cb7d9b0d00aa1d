"""LoRA: one scale everywhere, merged equals unmerged, gradients of the plain formula."""

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

from graft_jax.errors import GraftError
from graft_jax.models.lora import GROUPS, TARGETS, Lora, init_lora, linear, lora_delta, merge
from graft_jax.models.passes import sequence_pass

RANK, ALPHA = 4, 12.0
SUBSETS = [TARGETS, ("q", "v"), ("k", "up"), ("o", "gate", "down")]
sequences = jax.jit(sequence_pass, static_argnames="spec")


@pytest.mark.parametrize("targets", SUBSETS, ids=",".join)
def test_merged_equals_unmerged(targets: Sequence[str]) -> None:
    spec = tiny.make_spec(layers=2)
    params = tiny.make_params(spec, rank=RANK, alpha=ALPHA, targets=targets)
    tokens = np.arange(12)[None] * 25
    arrays = tokens, np.arange(12)[None], np.ones_like(tokens)
    beside, _ = sequences(params, spec, *arrays)
    merged = params.replace(base=merge(params.base, params.lora), lora=None)
    inside, _ = sequences(merged, spec, *arrays)
    np.testing.assert_allclose(inside, beside, atol=2e-5)
    alone, _ = sequences(params.replace(lora=None), spec, *arrays)
    assert np.abs(alone - beside).max() > 0.1
    for name in set(TARGETS) - set(targets):  # what is no target stays the base's own array
        assert merged.base["layers"][0][name] is params.base["layers"][0][name]


def test_the_change_of_a_weight_is_alpha_over_rank_times_a_b() -> None:
    spec = tiny.make_spec(layers=1)
    lora = tiny.make_adapter(spec, rank=RANK, alpha=ALPHA).lora
    assert lora.scale == ALPHA / RANK
    for name, members in GROUPS.items():
        group = lora.layers[0][name]
        for i, member in enumerate(members):
            a = np.asarray(group["a"])[:, i * RANK : (i + 1) * RANK]
            np.testing.assert_allclose(
                lora_delta(group, name, member, lora.scale),
                ALPHA / RANK * a @ np.asarray(group[member]),
                atol=1e-5,
            )


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize("adapted", [("q", "k", "v"), ("q", "v"), ("v",)], ids=",".join)
def test_values_and_gradients_are_those_of_the_plain_formula(adapted, dtype) -> None:
    spec = tiny.make_spec(layers=1)
    weights = tiny.make_base(spec, dtype)["layers"][0]
    lora = tiny.make_adapter(spec, rank=RANK, alpha=ALPHA, targets=adapted).lora
    rng = np.random.default_rng(5)
    x = jnp.asarray(rng.standard_normal((2, 3, spec.width)), jnp.float32)
    weigh = {m: rng.standard_normal((2, 3, spec.linear_shapes[m][1])) for m in GROUPS["qkv"]}

    def fused(x: jax.Array, layer: dict) -> jax.Array:
        outputs = linear(x, weights, "qkv", layer, lora.scale)
        return sum(jnp.sum(y * weigh[m]) for y, m in zip(outputs, GROUPS["qkv"], strict=True))

    def plain(x: jax.Array, layer: dict) -> jax.Array:
        total = 0.0
        for member in GROUPS["qkv"]:
            y = x @ weights[member].astype(jnp.float32)
            if member in adapted:
                first = adapted.index(member) * RANK
                a = layer["qkv"]["a"][:, first : first + RANK]
                y += ALPHA / RANK * (x @ a) @ layer["qkv"][member]
            total += jnp.sum(y * weigh[member])
        return total

    both = [jax.jit(jax.value_and_grad(f, argnums=(0, 1))) for f in (fused, plain)]
    actual, wanted = (f(x, lora.layers[0]) for f in both)
    tiny.assert_trees_close(actual, wanted, 1e-5 if dtype == jnp.float32 else 0.02)


def test_training_starts_at_the_base() -> None:
    spec = tiny.make_spec(layers=2, width=512)
    lora = init_lora(jax.random.key(0), spec, 8, 16.0)
    for layer in lora.layers:
        for name, group in layer.items():
            assert all(not group[member].any() for member in GROUPS[name])
    a = np.asarray(lora.layers[0]["qkv"]["a"])
    assert a.shape == (512, 3 * 8)
    assert a.var() == pytest.approx(1 / (3 * 512), rel=0.05)
    assert np.abs(a - np.asarray(lora.layers[1]["qkv"]["a"])).max() > 0  # layers differ


def test_the_scale_is_part_of_the_programs_identity() -> None:
    """Two scales never share a compiled program."""
    one, two = Lora(layers=(), scale=2.0), Lora(layers=(), scale=3.0)
    assert jax.tree.structure(one) != jax.tree.structure(two)


@pytest.mark.parametrize(("rank", "targets", "named"), [(0, TARGETS, "rank"), (4, ("w",), "'w'")])
def test_settings_that_make_no_adapter_are_refused(rank, targets, named: str) -> None:
    make = partial(init_lora, jax.random.key(0), tiny.make_spec(), rank, 8.0, targets)
    with pytest.raises(GraftError, match=named):
        make()
