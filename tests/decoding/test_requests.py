"""Many prompts in few shapes: rows come back in order, and programs are few."""

from collections.abc import Sequence

import jax
import numpy as np
import pytest
import tiny

from graft_jax.catalog.catalog import Tool
from graft_jax.data.order import BUCKETS, bucket
from graft_jax.decoding.decode import decode, decode_unconstrained
from graft_jax.decoding.masks import Index, make_index
from graft_jax.decoding.requests import (
    Request,
    decode_prompts,
    decode_prompts_unconstrained,
    make_limits,
)
from graft_jax.models.adapter import Params

SPEC = tiny.make_spec(layers=1)
CAPACITY = 32
CATALOG = tiny.make_catalog()
RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def params() -> Params:
    return tiny.make_params(SPEC)


@pytest.fixture(scope="module")
def index() -> Index:
    return make_index(CATALOG, CAPACITY)


def limits(most: int = 4, allowed: Sequence[int] = range(6), follow_graph: bool = True):  # type: ignore[no-untyped-def]
    request = Request(np.isin(np.arange(6), allowed), follow_graph, 1, most)
    return make_limits(request, CATALOG.successors, CAPACITY)


def prompts(lengths: Sequence[int]) -> list[list[int]]:
    return [[1, *RNG.integers(3, 250, n - 1).tolist()] for n in lengths]


def test_rows_come_back_in_the_given_order(params: Params, index: Index) -> None:
    """Of two batches in two buckets, whichever way the prompts are listed."""
    lengths = RNG.permutation(np.concatenate([np.arange(32) % 15 + 2, np.arange(17, 27)]))
    asked = prompts(lengths)
    found = decode_prompts(params, index, SPEC, asked, limits(), plans=2)
    assert found.entries.shape[:2] == (42, 2)
    backwards = decode_prompts(params, index, SPEC, asked[::-1], limits(), plans=2)
    jax.tree.map(
        lambda one, other: np.testing.assert_array_equal(one, other[::-1]), found, backwards
    )
    for i in np.flatnonzero(lengths > 16)[:3]:
        alone = decode_prompts(params, index, SPEC, asked[i : i + 1], limits(), plans=2)
        np.testing.assert_array_equal(found.entries[i], alone.entries[0])
        np.testing.assert_allclose(found.log_probs[i], alone.log_probs[0], atol=1e-5)
    tokens, scores = decode_prompts_unconstrained(params, index, SPEC, asked, tiny.WORDS, 4)
    assert tokens.shape == scores.shape == (42, 8)
    again, _ = decode_prompts_unconstrained(params, index, SPEC, asked[::-1], tiny.WORDS, 4)
    np.testing.assert_array_equal(tokens, again[::-1])


def test_fifty_lengths_compile_no_more_programs_than_there_are_buckets(
    params: Params, index: Index
) -> None:
    lengths = range(1, 51)
    buckets = {bucket(length) for length in lengths}
    decode.clear_cache()
    decode_unconstrained.clear_cache()
    for prompt in prompts(lengths):
        decode_prompts(params, index, SPEC, [prompt], limits())
        decode_prompts_unconstrained(params, index, SPEC, [prompt], tiny.WORDS, 4)
    assert decode._cache_size() <= len(buckets) < 10
    assert decode_unconstrained._cache_size() <= len(buckets)


def test_another_list_limit_constraint_or_tool_compiles_nothing(
    params: Params, index: Index
) -> None:
    [prompt] = prompts([10])
    decode_prompts(params, index, SPEC, [prompt], limits())
    before = decode._cache_size()
    for changed in (limits(most=2), limits(allowed=[1]), limits(follow_graph=False)):
        decode_prompts(params, index, SPEC, [prompt], changed)
    grown = CATALOG.with_tool(Tool("new_tool"), ["play_music"])
    more = make_limits(Request(np.ones(7, bool), True, 1, 4), grown.successors, CAPACITY)
    decode_prompts(params, make_index(grown, CAPACITY), SPEC, [prompt], more)
    assert decode._cache_size() == before


def test_a_tool_added_can_be_planned_at_once_and_one_removed_never(params: Params) -> None:
    [prompt] = prompts([10])
    grown = CATALOG.with_tool(Tool("new_tool"))
    only = make_limits(Request(np.arange(7) == 6, True, 1, 1), grown.successors, CAPACITY)
    found = decode_prompts(params, make_index(grown, CAPACITY), SPEC, [prompt], only)
    assert found.entries[0, 0, :2].tolist() == [7, 0]
    shrunk = CATALOG.without_tool("play_music")
    every = make_limits(Request(np.ones(5, bool), True, 1, 2), shrunk.successors, CAPACITY)
    found = decode_prompts(params, make_index(shrunk, CAPACITY), SPEC, [prompt], every, plans=40)
    exists = np.isfinite(found.log_probs[0])
    assert exists.sum() == 5 + sum(len(row) for row in shrunk.successors)
    assert found.entries[0][exists].max() == 5


def test_a_prompt_longer_than_the_widest_bucket_is_refused(params: Params, index: Index) -> None:
    with pytest.raises(ValueError, match=f"longer than the largest bucket, {BUCKETS[-1]}"):
        decode_prompts(params, index, SPEC, [[1] * (BUCKETS[-1] + 1)], limits())
