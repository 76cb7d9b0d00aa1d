"""Successors as bits, sampled paths (Eq. 6), edges held out, candidates (Eq. 8)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graft_jax.catalog import Catalog, Tool
from graft_jax.catalog.graph import (
    candidate_width,
    capacity,
    edge_candidates,
    hold_out_edges,
    length_distribution,
    sample_paths,
    successor_bits,
    tool_bits,
)


def catalog_of(num_tools: int, edges) -> Catalog:
    tools = tuple(Tool(str(i)) for i in range(num_tools))
    return Catalog(tools, tuple((str(i), str(j)) for i, j in dict.fromkeys(edges)))


@st.composite
def catalogs(draw) -> Catalog:
    num_tools = draw(st.integers(1, 80))
    tool = st.integers(0, num_tools - 1)
    return catalog_of(num_tools, draw(st.lists(st.tuples(tool, tool), max_size=200)))


def unpack(words: np.ndarray) -> np.ndarray:
    """Bits as bool [..., tools], read one by one."""
    tools = np.arange(words.shape[-1] * 32)
    return (words[..., tools // 32] >> (tools % 32).astype(np.uint32)) & 1 == 1


@pytest.mark.parametrize(
    ("n", "rows"), [(0, 32), (1, 32), (32, 32), (33, 64), (64, 64), (260, 512), (47_000, 65_536)]
)
def test_capacity_is_the_next_power_of_two(n, rows):
    assert capacity(n) == rows


@settings(deadline=None)
@given(catalogs())
def test_successor_bits_say_what_the_graph_says(catalog):
    rows = capacity(len(catalog))
    words = successor_bits(catalog, rows)
    assert words.shape == (rows + 1, rows // 32)
    assert words.dtype == np.uint32
    bits = unpack(words)
    assert bits[0].tolist() == [j < len(catalog) for j in range(rows)]
    expected = np.zeros((rows, rows), dtype=bool)
    for i, j in catalog.edges:
        expected[int(i), int(j)] = True
    assert (bits[1:] == expected).all()


def test_tool_bits_hold_a_set():
    words = tool_bits([0, 31, 32, 63, 32], 64)
    assert words.dtype == np.uint32
    assert words.tolist() == [0x80000001, 0x80000001]
    assert tool_bits(np.array([5]), 32).tolist() == [32]
    assert tool_bits([], 32).tolist() == [0]


def test_bits_refuse_what_does_not_fit():
    with pytest.raises(ValueError, match="33 tools do not fit"):
        successor_bits(catalog_of(33, []), 32)
    with pytest.raises(ValueError, match=r"\[0, 32\)"):
        tool_bits([32], 32)
    with pytest.raises(ValueError, match=r"\[0, 32\)"):
        tool_bits([-1], 32)
    with pytest.raises(ValueError, match="multiple of 32"):
        tool_bits([0], 33)


def test_length_distribution_is_empirical():
    assert length_distribution(["ab", "abc", "cd", "ef"]) == {2: 0.75, 3: 0.25}


@settings(deadline=None)
@given(catalogs(), st.integers(0, 2**32))
def test_paths_follow_edges_and_end_only_at_sinks_or_at_their_length(catalog, seed):
    paths = sample_paths(catalog.successors, {1: 1, 4: 2}, 20, seed)
    assert len(paths) == 20
    for path in paths:
        assert path.dtype == np.int32
        assert 1 <= len(path) <= 4
        assert catalog.is_legal([str(i) for i in path])
        assert len(path) in (1, 4) or not len(catalog.successors[path[-1]])


def test_paths_are_a_pure_function_of_the_seed():
    rng = np.random.default_rng(0)
    catalog = catalog_of(50, map(tuple, rng.integers(50, size=(300, 2)).tolist()))
    draw = [sample_paths(catalog.successors, {3: 1.0}, 40, seed) for seed in (1, 1, 2)]
    same = [[path.tolist() for path in paths] for paths in draw]
    assert same[0] == same[1] != same[2]


def test_lengths_starts_and_steps_follow_their_distributions():
    ring = catalog_of(4, [(i, (i + d) % 4) for i in range(4) for d in (0, 1)])
    paths = sample_paths(ring.successors, {1: 0.0, 2: 3.0, 3: 1.0}, 4000, 0)
    lengths = np.array([len(path) for path in paths])
    assert set(lengths) == {2, 3}
    assert abs((lengths == 2).mean() - 0.75) < 0.03
    starts = np.bincount([path[0] for path in paths], minlength=4) / 4000
    assert np.abs(starts - 0.25).max() < 0.03
    stays = np.mean([path[0] == path[1] for path in paths])
    assert abs(stays - 0.5) < 0.03


@pytest.mark.parametrize("lengths", [{}, {0: 1.0}, {2: 0.0}, {2: -1.0, 3: 2.0}, {2: float("nan")}])
def test_lengths_that_are_no_distribution_are_refused(lengths):
    with pytest.raises(ValueError, match="lengths"):
        sample_paths([np.array([0])], lengths, 1, 0)


@settings(deadline=None)
@given(catalogs(), st.floats(0, 1), st.integers(0, 99))
def test_kept_and_held_out_edges_are_the_graph_in_two_parts(catalog, share, seed):
    kept, held = hold_out_edges(catalog, share, seed)
    assert len(held) == round(share * len(catalog.edges))
    assert held == sorted(held)
    pairs = [(i, int(j)) for i, row in enumerate(kept) for j in row]
    assert sorted(pairs + held) == sorted((int(i), int(j)) for i, j in catalog.edges)
    assert all(row.dtype == np.int32 and (np.diff(row) > 0).all() for row in kept)
    shuffled = Catalog(catalog.tools, catalog.edges[::-1])
    assert hold_out_edges(shuffled, share, seed)[1] == held


def test_a_share_outside_the_unit_interval_is_refused():
    with pytest.raises(ValueError, match="share"):
        hold_out_edges(catalog_of(2, [(0, 1)]), 1.5, 0)


@settings(deadline=None)
@given(catalogs(), st.floats(0, 0.5), st.integers(0, 12), st.integers(0, 99))
def test_candidates_are_the_successors_then_distinct_non_successors(catalog, share, ratio, seed):
    kept, held = hold_out_edges(catalog, share, seed)
    nodes = np.array([*range(len(catalog)), -1])
    rng = np.random.default_rng(seed)
    candidates, positive = edge_candidates(nodes, kept, held, len(catalog), ratio, rng=rng)
    width = candidate_width(kept, len(catalog), ratio)
    assert candidates.shape == positive.shape == (len(catalog) + 1, width)
    assert candidates.dtype == np.int32
    assert positive.dtype == bool
    assert (candidates[-1] == -1).all()
    hidden, full = set(held), {(int(i), int(j)) for i, j in catalog.edges}
    for node, row, is_positive in zip(nodes[:-1], candidates, positive, strict=False):
        successors = kept[node].tolist()
        chosen = row[row >= 0].tolist()
        negatives = row[(row >= 0) & ~is_positive].tolist()
        assert row[is_positive].tolist() == successors
        assert len(set(chosen)) == len(chosen)
        assert not any((node, t) in full for t in negatives)
        assert not any((node, t) in hidden for t in chosen)
        others = [t for t in range(len(catalog)) if (node, t) not in full]
        reverse = [t for t in others if node in kept[t]]
        assert len(negatives) == min(len(others), ratio * len(successors))
        assert len(set(reverse) & set(negatives)) == min(len(reverse), len(negatives))


def test_a_tool_is_its_own_negative_unless_it_has_a_self_loop():
    catalog = catalog_of(3, [(0, 1), (1, 1), (1, 2)])
    rng = np.random.default_rng(0)
    candidates, positive = edge_candidates(
        np.array([[0, 1], [2, -1]]), catalog.successors, [], 3, rng=rng
    )
    assert candidates.shape == (2, 2, 3)
    assert sorted(candidates[0, 0]) == [0, 1, 2]
    assert candidates[0, 0, 0] == 1
    assert candidates[0, 1].tolist() == [1, 2, 0]
    assert positive[0, 1].tolist() == [True, True, False]
    assert (candidates[1] == -1).all()
    assert not positive[1].any()


def test_uniform_negatives_reach_every_tool():
    catalog = catalog_of(40, [(0, 1)])
    rng = np.random.default_rng(0)
    nodes = np.zeros(2000, dtype=int)
    candidates, positive = edge_candidates(nodes, catalog.successors, [], 40, 10, rng=rng)
    counts = np.bincount(candidates[~positive], minlength=40)
    assert counts[1] == 0
    assert np.abs(counts[np.arange(40) != 1] / 2000 - 10 / 39).max() < 0.05
