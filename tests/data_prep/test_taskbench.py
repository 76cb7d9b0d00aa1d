"""TaskBench: node lists are alphabetical, links tell the order."""

import itertools

import pytest
from made_rows import row

from data_prep import taskbench
from graft_jax.errors import GraftError


def converted(folder, **options):
    result = taskbench.convert(folder, **({"held_out": 1} | options))
    return result, {e.id: e for e in itertools.chain(*result.splits.values())}


def taskbench_row(identity, nodes, links, arguments=None, steps=None):
    arguments = arguments or [[] for _ in nodes]
    return row(
        identity,
        nodes,
        steps or [f"Step {i}: part {i}." for i in range(1, len(nodes) + 1)],
        task_nodes=[
            {"task": tool, "arguments": given} for tool, given in zip(nodes, arguments, strict=True)
        ],
        task_links=[{"source": a, "target": b} for a, b in links],
    )


def test_plans_follow_links_and_steps_lose_their_number(make_folder, good_rows):
    ordered = taskbench_row(
        "ordered",
        ["book_hotel", "find_hotel", "send_note"],
        [("book_hotel", "send_note"), ("find_hotel", "book_hotel")],
    )
    result, examples = converted(make_folder([*good_rows, ordered]))
    assert examples["ordered"].tools == ("find_hotel", "book_hotel", "send_note")
    assert examples["ordered"].subtasks == ("part 1.", "part 2.", "part 3.")
    assert result.paper is None


@pytest.mark.parametrize("named", [False, True])
def test_a_repeated_tool_is_placed_by_its_arguments(make_folder, good_rows, named):
    nodes = ["bye", "send_note", "send_note"]
    links = [("send_note", "bye"), ("send_note", "send_note")]
    arguments = [["<node-1>"], ["<node-2>", "x"], ["file.txt"]]
    if named:
        arguments = [[{"name": "in", "value": a} for a in given] for given in arguments]
    placed = taskbench_row("placed", nodes, links, arguments)
    lost = taskbench_row("lost", nodes, links)
    result, examples = converted(make_folder([*good_rows, placed, lost]))
    assert examples["placed"].tools == ("send_note", "send_note", "bye")
    assert "lost" not in examples
    assert any(
        "repeated tool" in why for why, ids in result.tally.left_out.items() if "lost" in ids
    )


def test_rows_whose_steps_do_not_pair_keep_no_subtasks(make_folder, good_rows):
    odd = row("odd", ("find_hotel", "book_hotel"), ["Step 1: a", "Step 2: b", "Step 3: c"])
    result, examples = converted(make_folder([*good_rows, odd]))
    assert examples["odd"].subtasks == ()
    assert any("no subtasks" in why and ids == ["odd"] for why, ids in result.tally.kept.items())


def test_inputs_and_outputs_become_schemas(make_folder, good_rows):
    nodes = [
        {"id": "find_hotel", "desc": "d", "input-type": ["audio", "audio"], "output-type": []},
        {
            "id": "book_hotel",
            "desc": None,
            "parameters": [
                {"name": "day", "type": "date", "desc": "which"},
                {"name": "who", "type": "string", "desc": "guest"},
            ],
        },
        {"id": "send_note", "desc": "d"},
        {"id": "bye", "desc": "d"},
    ]
    tools = converted(make_folder(good_rows, nodes=nodes))[0].catalog.tools
    assert list(tools[0].parameters["properties"]) == ["audio", "audio_2"]
    assert tools[0].outputs == {"type": "object", "properties": {}, "required": []}
    assert tools[1].description == ""
    assert tools[1].parameters["properties"]["day"]["format"] == "date"
    assert tools[1].parameters["required"] == ["day", "who"]
    assert tools[2].parameters is None


def test_the_missing_gold_file_is_named_with_its_address(make_folder, good_rows):
    folder = make_folder(good_rows)
    (folder / "data.json").unlink()
    with pytest.raises(GraftError, match=r"data\.json: no such file.*gold plans.*example\.org/set"):
        converted(folder, published_at="example.org/set")


def test_too_few_rows_for_the_held_out_splits(make_folder, good_rows):
    with pytest.raises(GraftError, match="--held-out a smaller number"):
        converted(make_folder(good_rows), held_out=500)
