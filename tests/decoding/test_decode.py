"""Decoding against exhaustive enumeration: what is found, what it is worth, what never happens."""

from collections.abc import Sequence
from itertools import pairwise, product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from hypothesis import given, settings
from hypothesis import strategies as st

from graft_jax.catalog.catalog import Catalog, Tool
from graft_jax.data.batches import pad_prompts
from graft_jax.decoding.decode import Decoded, decode, decode_unconstrained
from graft_jax.decoding.masks import make_index
from graft_jax.decoding.requests import Request, make_limits
from graft_jax.errors import GraftError
from graft_jax.models.adapter import Params
from graft_jax.models.passes import sequence_pass
from graft_jax.models.tool_tokens import ToolRows, full_logits
from graft_jax.training.objectives import plan_logits

SPEC = tiny.make_spec(layers=2)
CAPACITY, TOOLS = 32, 4
PROMPTS = [[1, 40, 77, 258, 12], [1, 9, 64, 5, 99, 3, 20]]
BATCH = pad_prompts(PROMPTS, 8)
# 3 is a sink, 2 may only follow itself, 0 and 1 are a cycle.
EDGES = ((0, 1), (1, 0), (1, 2), (0, 3), (2, 2), (1, 3))
VALID = np.arange(CAPACITY) < TOOLS

Plan = tuple[int, ...]
Distributions = dict[Plan, np.ndarray]


def catalog_of(edges: Sequence[tuple[int, int]]) -> Catalog:
    names = tuple(f"t{i}" for i in range(TOOLS))
    return Catalog(tuple(map(Tool, names)), tuple((names[a], names[b]) for a, b in edges))


def find(
    params: Params, request: Request, edges: Sequence[tuple[int, int]] = EDGES, beams: int = 1
) -> Decoded:
    catalog = catalog_of(edges)
    limits = make_limits(request, catalog.successors, CAPACITY)
    limits = limits.replace(allowed=jnp.broadcast_to(limits.allowed, (2, CAPACITY // 32)))
    found = decode(
        params,
        make_index(catalog, CAPACITY),
        SPEC,
        BATCH.ids,
        BATCH.lengths,
        limits,
        steps=limits.reach.shape[0],
        beams=beams,
    )
    return jax.tree.map(np.asarray, found)


def request(
    follow_graph: bool = True, least: int = 1, most: int = 3, allowed: Sequence[int] = range(TOOLS)
) -> Request:
    return Request(np.isin(np.arange(TOOLS), allowed), follow_graph, least, most)


def legal_plans(asked: Request, edges: Sequence[tuple[int, int]] = EDGES) -> list[Plan]:
    """Every plan that the request allows."""
    tools = np.flatnonzero(asked.allowed).tolist()
    return [
        plan
        for length in range(asked.min_steps, asked.max_steps + 1)
        for plan in product(tools, repeat=length)
        if not asked.follow_graph or all(pair in edges for pair in pairwise(plan))
    ]


def plan_of(entries: np.ndarray) -> Plan:
    """Tools before the first end-of-plan; nothing but end-of-plan may stand after it."""
    length = int((entries == 0).argmax())
    assert (entries[length:] == 0).all()
    return tuple(int(e) - 1 for e in entries[:length])


@pytest.fixture(scope="module")
def params() -> Params:
    return tiny.make_params(SPEC)


@pytest.fixture(scope="module")
def after(params: Params) -> Distributions:
    """log p(next entry | prompt, plan) [2, M + 1] of all plans of up to three tools, made by full
    forward passes."""
    plans = [plan for length in range(4) for plan in product(range(TOOLS), repeat=length)]
    entries = np.zeros((2, len(plans), 4), np.int32)
    for row, plan in enumerate(plans):
        entries[:, row, : len(plan)] = np.array(plan, int) + 1
    score = jax.jit(plan_logits, static_argnames="spec")
    logits = score(params, SPEC, BATCH, entries, VALID)
    log_probs = np.asarray(jax.nn.log_softmax(logits, axis=-1))
    return {plan: log_probs[:, row, len(plan)] for row, plan in enumerate(plans)}


def worth(after: Distributions, plan: Plan, b: int) -> float:
    """log p(plan, end | prompt b)."""
    steps = [after[plan[:k]][b, tool + 1] for k, tool in enumerate(plan)]
    return float(sum(steps) + after[plan][b, 0])


ASKED = {
    "graph": request(),
    "any tool": request(follow_graph=False),
    "two steps at least": request(follow_graph=False, least=2, most=2),
    "graph, three steps": request(least=3),
    "graph, some tools": request(allowed=[1, 2, 3]),
}


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED.keys())
def test_enough_beams_find_every_legal_plan_in_order(
    params: Params, after: Distributions, asked: Request
) -> None:
    """84 plans of one to three tools are all there are; 100 beams lose none."""
    found = find(params, asked, beams=100)
    legal = legal_plans(asked)
    for b in range(2):
        exists = np.isfinite(found.log_probs[b])
        plans = [plan_of(entries) for entries in found.entries[b][exists]]
        wanted = sorted(legal, key=lambda plan: -worth(after, plan, b))
        assert sorted(plans) == sorted(legal)
        assert (np.diff(found.log_probs[b][exists]) <= 0).all()
        # Log-probabilities are of the unmasked distribution, the same under every constraint.
        np.testing.assert_allclose(
            found.log_probs[b][exists], [worth(after, plan, b) for plan in wanted], atol=1e-5
        )
        np.testing.assert_allclose(
            found.step_log_probs[b][exists].sum(-1), found.log_probs[b][exists], atol=1e-5
        )
    assert not np.isnan(found.log_probs).any()


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED.keys())
def test_one_beam_takes_the_best_allowed_entry_at_every_step(
    params: Params, after: Distributions, asked: Request
) -> None:
    found = find(params, asked)
    legal = legal_plans(asked)
    prefixes = {plan[:k] for plan in legal for k in range(len(plan) + 1)}
    for b in range(2):
        plan: Plan = ()
        while True:
            allowed = [t + 1 for t in range(TOOLS) if (*plan, t) in prefixes]
            allowed += [0] if plan in legal else []
            best = sorted(allowed, key=lambda entry: -after[plan][b, entry])
            step = len(plan)
            shown = np.isfinite(found.runner_log_probs[b, 0, step])
            assert found.runners_up[b, 0, step][shown].tolist() == best[:4]
            np.testing.assert_allclose(
                found.runner_log_probs[b, 0, step][shown], after[plan][b, best[:4]], atol=1e-5
            )
            assert found.entries[b, 0, step] == best[0]
            if best[0] == 0:
                break
            plan = (*plan, best[0] - 1)
        assert plan_of(found.entries[b, 0]) == plan
        assert found.log_probs[b, 0] == pytest.approx(worth(after, plan, b), abs=1e-5)


def test_very_low_logits_do_not_open_the_mask() -> None:
    """What is allowed is e^-10,000 times as likely as anything else, at every step."""
    params = tiny.make_params(SPEC)
    # A first feature that is large in every hidden state, and rows that score by it alone.
    base = params.base | {"embed": params.base["embed"].at[:, 0].set(30.0)}
    head = params.tools.embed.at[:].set(0.0).at[:2, 0].set(-2000.0)
    rows = ToolRows(embed=params.tools.embed.at[:, 0].set(30.0), head=head)
    base["head"] = jnp.zeros_like(base["embed"])
    found = find(Params(base=base, lora=None, tools=rows), request(False, allowed=[0, 1]), beams=4)
    assert np.isfinite(found.log_probs).all()
    assert (found.log_probs < -2000).all()
    for entries in found.entries.reshape(-1, found.entries.shape[-1]):
        assert set(plan_of(entries)) <= {0, 1}


def test_beams_beyond_what_exists_have_no_probability(params: Params) -> None:
    """An allow list of one tool, four beams: plans of one to three times that tool, no fourth."""
    found = find(params, request(False, allowed=[2]), beams=4)
    for b in range(2):
        exists = np.isfinite(found.log_probs[b])
        plans = [plan_of(entries) for entries in found.entries[b][exists]]
        assert sorted(plans) == [(2,), (2, 2), (2, 2, 2)]
        assert found.log_probs[b, 3] == -np.inf
    alone = find(params, request(True, allowed=[3]), beams=4)  # the sink
    assert np.isfinite(alone.log_probs).sum() == 2
    assert plan_of(alone.entries[0, 0]) == (3,)


def test_a_tool_that_only_follows_itself(params: Params) -> None:
    found = find(params, request(least=3, allowed=[2]), beams=4)
    assert plan_of(found.entries[0, 0]) == (2, 2, 2)
    assert np.isneginf(found.log_probs[:, 1]).all()


_PARAMS = tiny.make_params(SPEC)


@settings(max_examples=40, deadline=None)
@given(
    edges=st.sets(st.tuples(st.integers(0, 3), st.integers(0, 3))),
    allowed=st.sets(st.integers(0, 3)),
    follow=st.booleans(),
    least=st.integers(1, 3),
    spare=st.integers(0, 2),
    beams=st.sampled_from([1, 4]),
)
def test_a_plan_or_a_refusal_and_never_a_forbidden_plan(
    edges: set, allowed: set, follow: bool, least: int, spare: int, beams: int
) -> None:
    """Any graph, any list, any limits: refused exactly where no plan exists."""
    asked = request(follow, least, min(least + spare, 4), sorted(allowed))
    legal = set(legal_plans(asked, sorted(edges)))
    if not legal:
        with pytest.raises(GraftError, match="allow"):
            find(_PARAMS, asked, sorted(edges), beams)
        return
    found = find(_PARAMS, asked, sorted(edges), beams)
    assert not np.isnan(found.log_probs).any()
    for b in range(2):
        exists = np.isfinite(found.log_probs[b])
        plans = [plan_of(entries) for entries in found.entries[b][exists]]
        assert exists[0]
        assert len(set(plans)) == len(plans)
        assert set(plans) <= legal
        assert len(plans) == min(beams, len(legal))


def test_refusals_say_how_long_the_longest_plan_is() -> None:
    successors = catalog_of(EDGES).successors
    with pytest.raises(GraftError, match="at most 1 legal step"):
        make_limits(request(least=3, allowed=[3]), successors, CAPACITY)
    with pytest.raises(GraftError, match="at most 2 legal steps"):
        make_limits(request(least=3, allowed=[0, 3]), successors, CAPACITY)
    with pytest.raises(GraftError, match="no tool is allowed"):
        make_limits(request(allowed=[]), successors, CAPACITY)
    with pytest.raises(GraftError, match="min_steps 2 and max_steps 1"):
        make_limits(request(least=2, most=1), successors, CAPACITY)
    with pytest.raises(GraftError, match="max_steps 64"):
        make_limits(request(most=64), successors, CAPACITY)


def test_bfloat16_keeps_the_mask() -> None:
    params = tiny.make_params(SPEC, jnp.bfloat16)
    found = find(params, request(), beams=4)
    legal = legal_plans(request())
    for b, c in np.argwhere(np.isfinite(found.log_probs)):
        assert plan_of(found.entries[b, c]) in legal


def test_an_unconstrained_answer_ends_with_its_first_end_of_plan() -> None:
    """Greedy over words and tools; equal to full forward passes, token by token."""
    params = tiny.make_params(SPEC)
    # The end made likely, padding rows made tempting.
    embed = params.base["embed"].at[tiny.EOS].multiply(4.0).at[tiny.WORDS :].multiply(50.0)
    params = params.replace(base=params.base | {"embed": embed})
    rng = np.random.default_rng(0)
    rows = [[1, *rng.integers(3, 250, 6).tolist()] for _ in range(8)]
    batch = pad_prompts(rows, 8)
    index = make_index(catalog_of(EDGES), CAPACITY)
    tokens, scores = map(
        np.asarray,
        decode_unconstrained(
            params, index, SPEC, batch.ids, batch.lengths, jnp.asarray(7), tiny.WORDS, steps=8
        ),
    )
    full = jax.jit(sequence_pass, static_argnames="spec")
    sequences = np.zeros((8, 16), np.int32)
    sequences[:, :7] = rows
    sequences[:, 7:15] = tokens
    columns = np.arange(16) + np.zeros_like(sequences)
    hidden, _ = full(params, SPEC, sequences, columns, np.ones_like(sequences))
    logits = full_logits(params.base, params.tools, hidden[:, 6:14], tiny.WORDS, VALID)
    log_probs = np.asarray(jax.nn.log_softmax(logits, axis=-1))
    ends = 0
    for row, values, own in zip(tokens, scores, log_probs, strict=True):
        length = int((row == tiny.EOS).argmax()) + 1  # forced after seven tokens
        ends += length < 8
        free = min(length, 7)
        assert (row[:free] == own[:free].argmax(-1)).all()
        chosen = np.take_along_axis(own, row[:, None], axis=1)[:, 0]
        np.testing.assert_allclose(values[:length], chosen[:length], atol=1e-5)
        assert (row[length:] == tiny.EOS).all()
        assert (values[length:] == 0).all()
        assert ((row < tiny.WORDS) | ((row >= 300) & (row < 300 + TOOLS))).all()
    assert ends > 0
