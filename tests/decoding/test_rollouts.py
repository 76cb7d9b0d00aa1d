"""Sampled plans: from the right distribution, by each row's own key, on one device or on four."""

import jax
import numpy as np
import pytest
import tiny

from graft_jax.data.batches import PromptBatch, pad_prompts
from graft_jax.decoding.decode import sample_rollouts
from graft_jax.decoding.masks import Index, make_index
from graft_jax.decoding.rollouts import jitted, mapped, rollout
from graft_jax.models.adapter import Params
from graft_jax.sharding import base_sharding, make_mesh, place_rows, replicate
from graft_jax.training.objectives import plan_logits

SPEC = tiny.make_spec(layers=2)
TOOLS, CAPACITY, STEPS, C = 6, 32, 4, 2
VALID = np.arange(CAPACITY) < TOOLS
RNG = np.random.default_rng(0)
PROMPTS = [[1, *RNG.integers(3, 250, n).tolist()] for n in (3, 9, 5, 7, 4, 8, 6, 2)]
BATCH = pad_prompts(PROMPTS, 16)
RUN = rollout(SPEC, STEPS, C, 1.0)
scored = jax.jit(plan_logits, static_argnames="spec")
sampled = jax.jit(sample_rollouts, static_argnames=("spec", "steps", "rollouts"))


@pytest.fixture(scope="module")
def params() -> Params:
    return tiny.make_params(SPEC)


@pytest.fixture(scope="module")
def index() -> Index:
    return make_index(tiny.make_catalog(), CAPACITY)


@pytest.fixture(scope="module")
def keys() -> jax.Array:
    return jax.random.split(jax.random.key(7), len(PROMPTS))


def draw(
    params: Params, index: Index, batch: PromptBatch, keys: jax.Array
) -> tuple[np.ndarray, np.ndarray]:
    found = jitted(RUN)(params, index, batch.ids, batch.lengths, keys)
    entries, mask = map(np.asarray, found)
    return entries, mask


def test_plans_end_once_and_hold_real_tools_alone(params, index, keys) -> None:
    entries, mask = draw(params, index, BATCH, keys)
    assert entries.shape == mask.shape == (len(PROMPTS), C, STEPS)
    assert entries.max() <= TOOLS
    for plan, steps in zip(entries.reshape(-1, STEPS), mask.reshape(-1, STEPS), strict=True):
        length = int((plan == 0).argmax()) + 1 if (plan == 0).any() else STEPS
        assert steps.tolist() == [k < length for k in range(STEPS)]
        assert not plan[length:].any()
    assert (entries == 0).any()
    assert len(np.unique(entries.reshape(-1, STEPS), axis=0)) > 4


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_frequencies_are_the_distributions(params, index, temperature: float) -> None:
    """First entries, and second entries after the most frequent first one."""
    rows = 64
    prompt = pad_prompts(PROMPTS[1:2], 16)
    entries, _ = sampled(
        params,
        index,
        SPEC,
        np.repeat(prompt.ids, rows, axis=0),
        np.repeat(prompt.lengths, rows),
        jax.random.split(jax.random.key(1), rows),
        steps=2,
        rollouts=48,
        temperature=temperature,
    )
    entries = np.asarray(entries).reshape(-1, 2)
    likeliest = int(np.bincount(entries[:, 0], minlength=2)[1:].argmax()) + 1
    plan = np.array([[[likeliest, 0]]])
    logits = np.asarray(scored(params, SPEC, prompt, plan, VALID))[0, 0]
    shares = np.asarray(jax.nn.softmax(logits / temperature))
    for drawn, share in (
        (entries[:, 0], shares[0]),
        (entries[entries[:, 0] == likeliest, 1], shares[1]),
    ):
        seen = np.bincount(drawn, minlength=CAPACITY + 1) / len(drawn)
        error = np.sqrt(share * (1 - share) / len(drawn))
        assert len(drawn) > 200
        assert (np.abs(seen - share) <= 4.5 * error + 1e-6).all()


def test_a_rows_plan_depends_on_its_own_key_alone(params, index, keys) -> None:
    entries, _ = draw(params, index, BATCH, keys)
    order = np.array([3, 1, 0, 7, 6, 5, 4, 2])
    turned = PromptBatch(BATCH.ids[order], BATCH.lengths[order])
    np.testing.assert_array_equal(draw(params, index, turned, keys[order])[0], entries[order])
    others = keys.at[1:].set(jax.random.split(jax.random.key(8), len(PROMPTS) - 1))
    changed, _ = draw(params, index, BATCH, others)
    np.testing.assert_array_equal(changed[0], entries[0])
    assert (changed[1:] != entries[1:]).any()


def test_padding_changes_no_plan(params, index, keys) -> None:
    entries, _ = draw(params, index, BATCH, keys)
    wide = pad_prompts(PROMPTS, 48)
    filled = np.where(np.arange(48) < wide.lengths[:, None], wide.ids, 99)
    changed, _ = draw(params, index, wide.replace(ids=filled), keys)
    np.testing.assert_array_equal(changed, entries)


def test_more_rollouts_and_more_steps_repeat_the_first_ones(params, index, keys) -> None:
    entries, _ = draw(params, index, BATCH, keys)
    more, _ = jitted(rollout(SPEC, STEPS + 2, C + 1, 1.0))(
        params, index, BATCH.ids, BATCH.lengths, keys
    )
    np.testing.assert_array_equal(np.asarray(more)[:, :C, :STEPS], entries)


def test_four_devices_draw_what_one_draws(params, index, keys) -> None:
    """`jitted` over a split base, `mapped` over a whole one, and `jax.pmap`, its old form."""
    entries, mask = draw(params, index, BATCH, keys)

    mesh = make_mesh(data=4)
    rows = place_rows(mesh, (BATCH.ids, BATCH.lengths, keys))
    whole = replicate(mesh, (params, index))
    by_device = mapped(RUN, mesh)(*whole, *rows)
    np.testing.assert_array_equal(by_device[0], entries)
    np.testing.assert_array_equal(by_device[1], mask)
    assert len(by_device[0].sharding.device_set) == 4

    def fold(array: jax.Array) -> jax.Array:
        return array.reshape(4, -1, *array.shape[1:])

    old = jax.pmap(RUN, in_axes=(None, None, 0, 0, 0))
    by_pmap = old(params, index, fold(BATCH.ids), fold(BATCH.lengths), fold(keys))
    np.testing.assert_array_equal(np.asarray(by_pmap[0]).reshape(entries.shape), entries)

    split_mesh = make_mesh(data=1, fsdp=2, tensor=2)
    base = jax.tree_util.tree_map_with_path(
        lambda path, leaf: jax.device_put(
            leaf, base_sharding(split_mesh, path[-1].key, leaf.shape)
        ),
        params.base,
    )
    assert not base["layers"][0]["q"].is_fully_replicated
    rows = place_rows(split_mesh, (BATCH.ids, BATCH.lengths, keys))
    rest = replicate(split_mesh, (params.lora, params.tools, index))
    split = Params(base=base, lora=rest[0], tools=rest[1])
    found, _ = jitted(RUN)(split, rest[2], *rows)
    np.testing.assert_array_equal(found, entries)
