"""Order from links, and step texts without tool names."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_prep.plans import NotAChain, called_tool, order_chain, subtask_text
from data_prep.splits import draw, split_examples
from graft_jax.data.examples import Example
from graft_jax.errors import GraftError


@given(st.permutations(range(6)), st.permutations(range(5)), st.integers(2, 6))
def test_a_chain_of_distinct_tools_is_found_in_any_order_of_nodes_and_links(nodes, order, size):
    plan = [f"tool {i}" for i in range(size)]
    links = list(itertools.pairwise(plan))
    shuffled = [links[i] for i in order if i < size - 1]
    assert order_chain([plan[i] for i in nodes if i < size], shuffled) == tuple(plan)


@given(st.lists(st.sampled_from("abc"), min_size=2, max_size=6), st.randoms(use_true_random=False))
def test_a_chain_that_repeats_tools_is_found_from_node_positions(plan, random):
    place = list(range(len(plan)))
    random.shuffle(place)  # step i of the plan is published as node place[i]
    nodes, inputs = [""] * len(plan), [set() for _ in plan]
    for step, position in enumerate(place):
        nodes[position] = plan[step]
        if step:
            inputs[position] = {place[step - 1]}
    assert order_chain(nodes, list(itertools.pairwise(plan)), inputs) == tuple(plan)


@pytest.mark.parametrize("plan", ["aa", "aba", "aab", "abab"])
def test_repeats_in_published_order_need_no_positions(plan):
    assert order_chain(plan, list(itertools.pairwise(plan))) == tuple(plan)


@pytest.mark.parametrize(
    ("tools", "links", "reason"),
    [
        ("", [], "no tools"),
        ("ab", [], "without links"),
        ("ab", [("a", "c")], "does not use"),
        ("abc", [("a", "b"), ("a", "c")], "do not form a chain"),
        ("abc", [("a", "c"), ("b", "c")], "do not form a chain"),
        ("ab", [("a", "b"), ("b", "a")], "do not form a chain"),
        ("abcd", [("b", "c"), ("c", "d"), ("d", "b")], "do not form a chain"),
        ("abcd", [("a", "b"), ("c", "d")], "do not form a chain"),
        ("abc", [("a", "b"), ("a", "b")], "do not form a chain"),
        ("aba", [("b", "a"), ("a", "b")], "repeated tool"),
    ],
)
def test_what_is_no_chain_is_refused_with_a_reason(tools, links, reason):
    with pytest.raises(NotAChain, match=reason):
        order_chain(list(tools), links)


@pytest.mark.parametrize(
    ("step", "text"),
    [
        ("Step 1 Call find_hotel to look for a hotel", "look for a hotel"),
        ("Step 12: call find_hotel to look", "look"),
        ("Step 2Call find_hotel to look", "look"),
        ("Step 3 Call find_hotel again to compare", "compare"),
        ("Step 1 Call find_hotel for comparing", "comparing"),
        ("Step 1 Use find_hotel to look", "look"),
        ("Step 1 Call find-hotel to look", "look"),
        ("Step 2 Once done, call find_hotel to look", "Once done, look"),
        ("1.2 Create the file", "Create the file"),
        ("Step 1: Extract the audio.", "Extract the audio."),
        ("2) Create the file", "Create the file"),
        ("3.5 hours of music", "3.5 hours of music"),
        ("Step 3 Call the desk to ask", "Call the desk to ask"),
        ("2 rooms and 3.5 hours", "2 rooms and 3.5 hours"),
        ("Step 1 Call find_hotel to ", ""),
        ("Step 4", ""),
    ],
)
def test_step_numbers_and_tool_names_are_taken_out(step, text):
    assert subtask_text(step, {"find_hotel"}) == text


def test_the_called_tool_is_read():
    assert called_tool("Step 2Call find_hotel to look") == "find_hotel"
    assert called_tool("Step 2 look") is None


def examples(count):
    return [Example(str(i), "q", (), ("t",)) for i in range(count)]


@given(st.permutations([str(i) for i in range(12)]), st.integers(0, 5))
def test_a_draw_depends_on_the_set_of_ids_and_the_seed(ids, seed):
    drawn = draw(ids, 5, seed)
    assert len(drawn) == 5
    assert drawn == draw(sorted(ids), 5, seed)
    assert draw([str(i) for i in range(200)], 50, 0) != draw([str(i) for i in range(200)], 50, 1)


@pytest.mark.parametrize("test_ids", [None, ["3", "5", "not there"]])
def test_splits_part_the_examples_and_keep_their_order(test_ids):
    everything = examples(20)
    splits = split_examples(everything, test_ids, 4, seed=0)
    assert sorted(itertools.chain(*splits.values()), key=lambda e: int(e.id)) == everything
    for members in splits.values():
        assert members == [e for e in everything if e in members]
    assert len(splits["validation"]) == 4
    if test_ids:
        assert [e.id for e in splits["test"]] == ["3", "5"]
    else:
        assert len(splits["test"]) == 4


@pytest.mark.parametrize(("count", "test_ids"), [(8, None), (5, ["0"]), (20, ["not there"])])
def test_an_empty_split_is_refused(count, test_ids):
    with pytest.raises(GraftError, match="split would be empty"):
        split_examples(examples(count), test_ids, 4, seed=0)
