"""UltraTool: odd rows are recovered or left out, always counted."""

import itertools
import json

import pytest
from made_rows import row

from data_prep import ultratool
from graft_jax.errors import GraftError

PLAN = ("find_hotel", "book_hotel")


def converted(folder, **options):
    result = ultratool.convert(folder, held_out=1, **options)
    examples = {e.id: e for e in itertools.chain(*result.splits.values())}
    return result, examples


def test_rows_become_examples_and_steps_lose_number_and_tool(make_folder, good_rows):
    result, examples = converted(make_folder(good_rows, test_ids=["3", "4"]))
    assert [e.id for e in result.splits["test"]] == ["3", "4"]
    assert examples["1"].subtasks == ("do part 1", "do part 2", "do part 3")
    assert examples["1"].tools == ("find_hotel", "book_hotel", "send_note")
    assert all(example.aligned for example in examples.values())
    assert not result.tally.left_out
    assert not result.tally.kept
    assert result.raw_subtasks["1"][0] == "Step 1 Call find_hotel to do part 1"
    assert result.catalog.tools[0].description == "find_hotel in words"
    assert ("send_note", "send_note") in result.catalog.edge_set


ODD = {
    "more": (row("more", PLAN, ["Step 1 a", "Step 2 b", "Step 3 c"]), "more steps than tools"),
    "fewer": (row("fewer", PLAN, ["Step 1 a"]), "fewer steps than tools"),
    "repeat": (row("repeat", ("send_note", "send_note")), "repeats a tool"),
    "back": (row("back", ("bye", "find_hotel", "bye")), "the tool graph lacks"),
    "white": (row("white", PLAN, user_request="\u00a0request 发\n"), "outer white space"),
    "swapped": (
        row("swapped", PLAN, ["Step 1 Call book_hotel to b", "Step 2 Call find_hotel to f"]),
        "another order: put in the plan's",
    ),
    "other": (
        row("other", PLAN, ["Step 1 Call find_hotel to f", "Step 2 Call find_hotel to b"]),
        "another tool than the plan's",
    ),
    "uncalled": (row("uncalled", PLAN, ["1.2 Find it", "2.2 Book it"]), "without 'Call <tool>'"),
    "textless": (row("textless", PLAN, ["Step 1 Call find_hotel to ", "Step 2 b"]), "without text"),
    "extra": (row("extra", PLAN, domain="x"), None),
}


def test_odd_rows_are_kept_and_counted(make_folder, good_rows):
    folder = make_folder(good_rows + [published for published, _ in ODD.values()], ["1"])
    result, examples = converted(folder)
    assert not result.tally.left_out
    for identity, (published, reason) in ODD.items():
        assert examples[identity].tools == tuple(n["task"] for n in published["task_nodes"])
        reasons = [why for why, ids in result.tally.kept.items() if identity in ids]
        assert bool(reasons) == bool(reason)
        assert reason is None or any(reason in why for why in reasons)
    assert examples["white"].query == "request 发"
    assert examples["swapped"].subtasks == ("f", "b")
    assert examples["other"].subtasks == ("f", "b")
    assert examples["uncalled"].subtasks == ("Find it", "Book it")
    for identity in ("more", "fewer", "textless"):
        assert examples[identity].subtasks == ()


BROKEN = {
    "blank": (row("blank", PLAN, user_request=" \n"), "request missing or blank"),
    "number": (row("number", PLAN, user_request=3), "request missing or blank"),
    "toolless": (row("toolless", ()), "no tools"),
    "lacking": ({"id": "lacking", "user_request": "r"}, "row without task_nodes"),
    "unknown": (row("unknown", ("find_hotel", "fly")), "tool that is not in the catalog"),
    "listed": (row("listed", PLAN, task_nodes=[{"task": ["find_hotel"]}]), "not in the catalog"),
    "single": (row("single", ("bye",)), "one tool alone"),
    "dag": (row("dag", PLAN, type="dag"), "type dag"),
    "unlinked": (row("unlinked", PLAN, task_links=[]), "without links"),
    "step": (row("step", PLAN, [1, 2]), "step that is not text"),
}


def test_broken_rows_are_left_out_and_counted(make_folder, good_rows):
    broken = [published for published, _ in BROKEN.values()]
    broken += [row("1", PLAN), row(None, PLAN)]
    folder = make_folder(
        good_rows + broken, ["1", "dag"], requests=[{"id": "1"}, {"id": "never planned"}]
    )
    result, examples = converted(folder)
    assert set(examples) == {str(i) for i in range(10)}
    assert result.rows_read == len(good_rows) + len(broken)
    left_out = result.tally.left_out
    for identity, (_, reason) in BROKEN.items():
        assert any(reason in why for why, ids in left_out.items() if identity in ids)
    assert left_out["id that stood before"] == ["1"]
    assert len(left_out["row without an id"]) == 1
    assert left_out["request in user_requests.json without a row in data.json"] == ["never planned"]
    assert any("official test id" in why for why, ids in left_out.items() if ids == ["dag"])


def test_filter_paper_leaves_out_what_the_paper_does_not_count(make_folder, good_rows):
    folder = make_folder(good_rows + [published for published, _ in ODD.values()], ["1"])
    result, examples = converted(folder, filter="paper")
    assert set(ODD) - set(examples) == {"more", "swapped", "other", "uncalled", "textless"}
    assert sum(len(ids) for ids in result.tally.left_out.values()) == 5
    with pytest.raises(GraftError, match="'half' is not one of all, paper"):
        converted(folder, filter="half")


def test_a_seeded_split_is_made_when_asked_for_and_only_then(make_folder, good_rows):
    folder = make_folder(good_rows, test_ids=())
    with pytest.raises(GraftError, match=r"split_ids\.json: no such file.*--split seeded"):
        converted(folder)
    first, again = (converted(folder, official=False)[0] for _ in range(2))
    assert first.splits == again.splits
    assert first.split.startswith("seeded")
    tests = {tuple(converted(folder, official=False, seed=s)[0].splits["test"]) for s in range(8)}
    assert len(tests) > 1
    (folder / "split_ids.json").write_text(json.dumps({"test_ids": {"chain": ["1", "2"]}}))
    assert len(converted(folder)[0].splits["test"]) == 2
    assert len(converted(folder, official=False)[0].splits["test"]) == 1


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("data.json", None, "no such file"),
        ("data.json", "", "holds no row"),
        ("data.json", '{"id": "1"}\n{"id"\n', "line 2: is not JSON"),
        ("data.json", "[]\n", "line 1: is not a JSON object"),
        ("data.json", '{"id": "1"}\n', "no row can be used"),
        ("tool_desc.json", "[]", "no list 'nodes'"),
        ("data.json", '{"id": "1", "user_request": "\\ud800"}', "line 1: half of a surrogate pair"),
        ("data.json", '{"id": ' + "9" * 5_000 + "}", "line 1: is not JSON .*digits"),
        ("tool_desc.json", "9" * 5_000, "is not JSON .*digits"),
        ("tool_desc.json", '{"nodes": [{"name": "x"}]}', "number 0 of its nodes .*'x'.* has id"),
        ("tool_desc.json", '{"nodes": [5]}', "number 0 of its nodes is 5; each has id"),
        ("tool_desc.json", '{"nodes": [{"id": "x", "input-type": "audio"}]}', "its nodes is .*'x'"),
        ("tool_desc.json", '{"nodes": [{"id": "x", "parameters": [5]}]}', "its nodes is .*'x'"),
        ("tool_desc.json", '{"nodes": [{"id": 5}]}', "published: tool 0: its name is a number"),
        ("graph_desc.json", None, "no such file"),
        ("graph_desc.json", '{"links": [{"source": "a"}]}', "number 0 of its links .*target"),
        ("graph_desc.json", '{"links": [{"source": [], "target": "a"}]}', "its links .*target"),
        ("graph_desc.json", '{"links": [5]}', "number 0 of its links is 5"),
        ("graph_desc.json", '{"links": [{"source": "a", "target": "b"}]}', "no tool 'a'"),
        ("split_ids.json", '{"test_ids": ["1"]}', "--split seeded"),
        ("split_ids.json", "{", "is not JSON"),
    ],
)
def test_damaged_files_are_named(make_folder, good_rows, name, content, words):
    folder = make_folder(good_rows, ["1"])
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_text(content)
    with pytest.raises(GraftError, match=words):
        converted(folder)


def test_bytes_that_are_no_text_are_named(make_folder, good_rows):
    folder = make_folder(good_rows, ["1"])
    (folder / "data.json").write_bytes(b"\xff\xfe")
    with pytest.raises(GraftError, match=r"data\.json: is not UTF-8"):
        converted(folder)
