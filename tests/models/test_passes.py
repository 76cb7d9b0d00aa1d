"""The passes agree with one another, and padding, packing and neighbours change nothing."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

from graft_jax.data.batches import TokenSequence, pack_sequences, pad_prompts
from graft_jax.models.adapter import Params
from graft_jax.models.passes import branch_pass, prompt_pass, sequence_pass, step_pass
from graft_jax.models.spec import ModelSpec

SPECS = {"full": tiny.make_spec(layers=2), "window": tiny.make_spec(layers=2, sliding_window=4)}
PROMPTS = [[1, 40, 77, 258, 12], [1, 9, 2, 310, 64, 5, 99, 3, 20]]
# Continuations of each prompt: tools, end-of-plan, a word.
BRANCHES = [[[300, 301, 2], [305, 305, 305], [2, 2, 2]], [[331, 300, 7], [300, 2, 2], [310, 9, 1]]]
T, STEPS = 16, 5

sequences = jax.jit(sequence_pass, static_argnames="spec")
branches = jax.jit(branch_pass, static_argnames="spec")
prompts = jax.jit(prompt_pass, static_argnames=("spec", "width", "steps"))
step = jax.jit(step_pass, static_argnames="spec")


def alone(params: Params, spec: ModelSpec, ids: list[int]) -> np.ndarray:
    """Hidden states [len(ids), D] of a sequence with a batch of its own."""
    tokens = np.zeros((1, T), np.int32)
    tokens[0, : len(ids)] = ids
    segments = (np.arange(T) < len(ids)).astype(np.int32)[None]
    hidden, _ = sequences(params, spec, tokens, np.arange(T)[None], segments)
    return np.asarray(hidden[0, : len(ids)])


@pytest.fixture(scope="module")
def params() -> Params:
    return tiny.make_params(SPECS["full"])


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())
def test_branches_equal_sequences_of_their_own(params: Params, spec: ModelSpec) -> None:
    batch = pad_prompts(PROMPTS, T)
    hidden = branches(params, spec, batch.ids, batch.lengths, np.array(BRANCHES))
    assert hidden.shape == (2, 3, 4, spec.width)
    for b, prompt in enumerate(PROMPTS):
        for c, branch in enumerate(BRANCHES[b]):
            wanted = alone(params, spec, prompt + branch)[len(prompt) - 1 :]
            np.testing.assert_allclose(hidden[b, c], wanted, atol=1e-5)


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())
def test_cached_decoding_equals_the_full_forward_pass(params: Params, spec: ModelSpec) -> None:
    batch = pad_prompts(PROMPTS, T)
    first, cache = prompts(params, spec, batch.ids, batch.lengths, 3, STEPS)
    steps = [np.broadcast_to(first[:, None], (2, 3, spec.width))]
    fed = np.array([[(*branch, 5) for branch in row] for row in BRANCHES])  # four steps of five
    for s in range(fed.shape[-1]):
        hidden, cache = step(params, spec, cache, fed[..., s], np.int32(s))
        steps.append(np.asarray(hidden))
    for b, prompt in enumerate(PROMPTS):
        for c in range(3):
            wanted = alone(params, spec, [*prompt, *fed[b, c].tolist()])[len(prompt) - 1 :]
            np.testing.assert_allclose([h[b, c] for h in steps], wanted, atol=1e-5)


def test_cached_decoding_in_bfloat16_stays_near_the_full_pass() -> None:
    spec = SPECS["full"]
    params = tiny.make_params(spec, jnp.bfloat16)
    batch = pad_prompts(PROMPTS, T)
    _, cache = prompts(params, spec, batch.ids, batch.lengths, 3, STEPS)
    hidden, _ = step(params, spec, cache, np.array(BRANCHES)[..., 0], np.int32(0))
    for b, prompt in enumerate(PROMPTS):
        wanted = alone(params, spec, [*prompt, BRANCHES[b][0][0]])[-1]
        np.testing.assert_allclose(hidden[b, 0], wanted, atol=0.1)  # of values of size one


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())
def test_padding_on_either_side_changes_nothing(params: Params, spec: ModelSpec) -> None:
    """Left or right by k columns, whatever stands in them."""
    ids = PROMPTS[1]
    wanted = alone(params, spec, ids)
    for left in (0, 1, 4, 7):
        span = slice(left, left + len(ids))
        tokens = np.full((1, T), 55)
        tokens[0, span] = ids
        positions, segments = np.full((1, T), 3), np.zeros((1, T), np.int32)
        positions[0, span] = np.arange(len(ids))
        segments[0, span] = 1
        hidden, before = sequences(params, spec, tokens, positions, segments)
        np.testing.assert_allclose(hidden[0, span], wanted, atol=1e-5)
        assert np.isfinite(hidden).all()
        assert np.isfinite(before).all()


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())
def test_packed_sequences_do_not_see_each_other(params: Params, spec: ModelSpec) -> None:
    made = [
        TokenSequence((1, 40, 77), (300, 2)),
        TokenSequence((1, 9), (331, 310, 305, 2)),
        TokenSequence((1, 64, 5, 99), (300,)),
    ]
    packed = pack_sequences([made], T, 8)
    together, _ = sequences(params, spec, packed.tokens, packed.positions, packed.segments)
    read = together[0, packed.label_pos[0]]
    wanted = np.concatenate(
        [alone(params, spec, [*s.prompt, *s.targets[:-1]])[len(s.prompt) - 1 :] for s in made]
    )
    assert packed.label_mask.sum() == len(wanted) == 7
    np.testing.assert_allclose(read[:7], wanted, atol=1e-5)


def test_a_wider_buffer_and_other_rows_change_nothing(params: Params) -> None:
    spec = SPECS["full"]
    narrow, wide = pad_prompts(PROMPTS, T), pad_prompts([*PROMPTS, [1]], 2 * T)
    small, cache = prompts(params, spec, narrow.ids, narrow.lengths, 3, STEPS)
    large, wide_cache = prompts(params, spec, wide.ids, wide.lengths, 3, 2 * STEPS)
    np.testing.assert_allclose(large[:2], small, atol=1e-5)
    tokens = np.array(BRANCHES)[..., 0]
    small, _ = step(params, spec, cache, tokens, np.int32(0))
    more = np.concatenate([tokens, tokens[:1]])
    large, _ = step(params, spec, wide_cache, more, np.int32(0))
    np.testing.assert_allclose(large[:2], small, atol=1e-5)


def test_gradients_stay_finite_where_rows_are_all_padding(params: Params) -> None:
    spec = SPECS["full"]
    nothing = np.zeros((1, T), np.int32)

    @jax.jit
    @partial(jax.grad, argnums=(0, 1))
    def gradients(lora, tools, base):  # type: ignore[no-untyped-def]
        changed = Params(base=base, lora=lora, tools=tools)
        hidden, before = sequence_pass(changed, spec, nothing, nothing, nothing)
        return jnp.sum(hidden) + jnp.sum(before)

    found = gradients(params.lora, params.tools, params.base)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(found))
