"""Masks as bits equal masks as sets."""

import jax
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from graft_jax.catalog.catalog import Catalog, Tool
from graft_jax.catalog.graph import tool_bits
from graft_jax.decoding.masks import Index, allowed_entries, make_index, unpack

CAPACITY = 64
tools = st.sets(st.integers(0, CAPACITY - 1))
check = settings(max_examples=50, deadline=None)
unpacked = jax.jit(unpack)
entries = jax.jit(allowed_entries)


@check
@given(tools)
def test_bits_are_sets(chosen: set[int]) -> None:
    assert set(np.flatnonzero(unpacked(tool_bits(chosen, CAPACITY)))) == chosen


@check
@given(
    valid=tools,
    edges=st.sets(st.tuples(st.integers(0, CAPACITY - 1), st.integers(0, CAPACITY - 1))),
    allowed=tools,
    last=st.lists(st.integers(0, CAPACITY), min_size=3, max_size=3),
    follow=st.booleans(),
    end=st.lists(st.booleans(), min_size=3, max_size=3),
)
def test_what_may_follow_is_an_intersection_of_sets(
    valid: set, edges: set, allowed: set, last: list, follow: bool, end: list
) -> None:
    rows = [tool_bits(valid, CAPACITY)]
    rows += [tool_bits([b for a, b in edges if a == i], CAPACITY) for i in range(CAPACITY)]
    index = Index(valid=rows[0], successors=np.array(rows))
    lists = np.broadcast_to(tool_bits(allowed, CAPACITY), (3, CAPACITY // 32))
    found = entries(index, np.array(last), lists, np.array(follow), np.array(end))
    for row, before, may_end in zip(np.asarray(found), last, end, strict=True):
        wanted = valid & allowed
        if follow and before:
            wanted &= {b for a, b in edges if a == before - 1}
        assert row[0] == may_end
        assert set(np.flatnonzero(row[1:])) == wanted


def test_an_index_holds_the_catalogs_tools_and_edges() -> None:
    names = [f"t{i}" for i in range(40)]
    edges = (("t0", "t39"), ("t39", "t39"), ("t31", "t32"), ("t32", "t31"))
    index = make_index(Catalog(tuple(map(Tool, names)), edges), CAPACITY)
    assert index.capacity == CAPACITY
    assert set(np.flatnonzero(unpack(index.valid))) == set(range(40))
    rows = np.asarray(unpack(index.successors))
    assert set(np.flatnonzero(rows[0])) == set(range(40))
    found = {(f"t{i - 1}", f"t{j}") for i, j in np.argwhere(rows) if i}
    assert found == set(edges)
