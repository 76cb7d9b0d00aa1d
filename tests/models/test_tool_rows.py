"""Tool rows: where they start, what they score, how they stay one with a tied backbone."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import tiny

from graft_jax.data.batches import TokenSequence, pack_sequences
from graft_jax.models.tool_tokens import (
    MASKED,
    ToolRows,
    embed,
    entry_tokens,
    full_logits,
    init_tool_rows,
    restricted_logits,
)
from graft_jax.training.objectives import token_objective
from graft_jax.training.step import TrainState, copy_tree, make_step

CAPACITY = 32
TOOLS = np.arange(CAPACITY) < 5  # valid


@pytest.mark.parametrize("tied", [True, False])
def test_rows_start_as_the_mean_of_their_texts_rows(tied: bool) -> None:
    base = tiny.make_base(tiny.make_spec(tied=tied))
    ids = [[3, 4, 4], [200], [7, 9, 11, 258]]
    rows = init_tool_rows(base, ids, CAPACITY)
    for made, name in ((rows.embed, "embed"), (rows.head, "head")):
        if name == "head" and tied:
            assert made is None
            continue
        assert made.shape == (CAPACITY, 32)
        matrix = np.asarray(base[name])
        for row, tokens in zip(np.asarray(made), ids, strict=False):
            np.testing.assert_allclose(row, matrix[tokens].mean(axis=0), atol=1e-6)
        assert not np.asarray(made)[3:].any()


def test_ids_from_v_on_are_tools() -> None:
    base, rows = tiny.make_base(tiny.make_spec()), tiny.make_adapter(tiny.make_spec()).tools
    found = np.asarray(embed(base, rows, np.array([[0, 299, 300, 331]])))[0]
    wanted = [base["embed"][0], base["embed"][299], rows.embed[0], rows.embed[31]]
    np.testing.assert_array_equal(found, np.array(wanted))
    np.testing.assert_array_equal(
        entry_tokens(np.array([0, 1, 32]), tiny.EOS, 300), [tiny.EOS, 300, 331]
    )


@pytest.mark.parametrize("tied", [True, False])
def test_the_restricted_space_is_a_part_of_the_full_one(tied: bool) -> None:
    spec = tiny.make_spec(tied=tied)
    base, rows = tiny.make_base(spec), tiny.make_adapter(spec).tools
    hidden = np.random.default_rng(1).standard_normal((2, 3, 32)).astype(np.float32)
    part = np.asarray(restricted_logits(base, rows, hidden, tiny.EOS, TOOLS))
    full = np.asarray(full_logits(base, rows, hidden, tiny.WORDS, TOOLS))
    output = np.asarray(base["embed" if tied else "head"])
    np.testing.assert_allclose(part[..., 0], hidden @ output[tiny.EOS], atol=1e-5)
    np.testing.assert_allclose(part[..., 1:6], hidden @ np.asarray(rows.output)[:5].T, atol=1e-5)
    np.testing.assert_allclose(part[..., 1:], full[..., 300:], atol=1e-5)
    np.testing.assert_allclose(part[..., 0], full[..., tiny.EOS], atol=1e-5)
    assert (part[..., 6:] == np.float32(MASKED)).all()


def test_padding_rows_are_never_chosen() -> None:
    base, rows = tiny.make_base(tiny.make_spec()), tiny.make_adapter(tiny.make_spec()).tools
    hidden = np.random.default_rng(2).standard_normal((64, 32)).astype(np.float32)
    # Rows that nobody trained may hold anything.
    base["embed"] = base["embed"].at[tiny.WORDS :].multiply(1000)
    rows = rows.replace(embed=rows.embed.at[5:].multiply(1000))
    logits = full_logits(base, rows, hidden, tiny.WORDS, TOOLS)
    best = np.asarray(logits.argmax(-1))
    assert ((best < tiny.WORDS) | ((best >= 300) & (best < 305))).all()
    shares = np.asarray(jax.nn.softmax(logits))
    assert (shares[:, tiny.WORDS : 300] == 0).all()
    assert (shares[:, 305:] == 0).all()


def gradient_of(spec, rows: ToolRows, base, lora):  # type: ignore[no-untyped-def]
    """Of one token loss with respect to the tool rows."""
    batch = pack_sequences([[TokenSequence((1, 9, 300), (301, 302, tiny.EOS))]], 8, 4)
    adapter = tiny.make_adapter(spec).replace(lora=lora, tools=rows)
    objective = token_objective(spec, tiny.WORDS, jnp.asarray(TOOLS), restricted=False)
    counts = objective.counts(batch)
    gradient = jax.jit(jax.grad(objective.loss, has_aux=True))
    return gradient(adapter, base, batch, counts)[0].tools


def test_a_tied_rows_gradient_comes_from_both_its_uses() -> None:
    tied, untied = tiny.make_spec(layers=1), tiny.make_spec(layers=1, tied=False)
    base, adapter = tiny.make_base(tied), tiny.make_adapter(tied)
    one = gradient_of(tied, adapter.tools, base, adapter.lora)
    apart = ToolRows(embed=adapter.tools.embed, head=adapter.tools.embed)
    two = gradient_of(untied, apart, base | {"head": base["embed"]}, adapter.lora)
    assert one.head is None
    np.testing.assert_allclose(one.embed, two.embed + two.head, atol=1e-6)
    used_as_input, used_as_output = np.abs(two.embed).max(axis=1), np.abs(two.head).max(axis=1)
    assert (used_as_input[:3] > 0).all()
    assert (used_as_output[:5] > 0).all()
    assert not used_as_input[3:].any()
    assert not used_as_output[5:].any()  # rows without a tool are never trained


def test_after_a_training_step_input_and_output_are_still_the_same_row() -> None:
    spec = tiny.make_spec(layers=1)
    base, adapter = tiny.make_base(spec), tiny.make_adapter(spec)
    objective = token_objective(spec, tiny.WORDS, jnp.asarray(TOOLS), restricted=False)
    optimizer = optax.adam(1e-2)
    batch = pack_sequences([[TokenSequence((1, 9, 300), (301, 302, tiny.EOS))]], 8, 4)
    start = copy_tree(adapter)
    state = TrainState(jnp.asarray(0), start, optimizer.init(start), None, None)
    state, _ = make_step(objective, optimizer, positions_at_once=64)(state, base, batch)
    rows = state.adapter.tools
    assert np.abs(rows.embed - adapter.tools.embed)[:5].max() > 1e-3
    hidden = np.random.default_rng(3).standard_normal((4, 32)).astype(np.float32)
    as_input = embed(base, rows, 300 + np.arange(5))
    as_output = restricted_logits(base, rows, hidden, tiny.EOS, TOOLS)[:, 1:6]
    np.testing.assert_allclose(as_output, hidden @ np.asarray(as_input).T, atol=1e-5)
