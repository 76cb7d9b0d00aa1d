"""The examples contract: what is read back is what was written; bad input is named."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graft_jax.catalog.catalog import Catalog, Tool
from graft_jax.data.examples import (
    LONGEST_PLAN,
    Example,
    data_hash,
    load_examples,
    load_splits,
    save_examples,
    subtask_pairs,
)
from graft_jax.errors import GraftError

CATALOG = Catalog(tuple(Tool(name) for name in ("a.b", "👋 wave", "c")), (("a.b", "c"),))
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip)
EXAMPLES = st.lists(
    st.builds(
        Example,
        id=TEXT,
        query=TEXT,
        subtasks=st.lists(TEXT, max_size=3).map(tuple),
        tools=st.lists(st.sampled_from(CATALOG.names), min_size=1, max_size=4).map(tuple),
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda example: example.id,
)


def record(**changes):
    return {"id": "7", "query": "do it", "subtasks": ["one"], "tools": ["c"]} | changes


def write(path, *records):
    path.write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8")
    return path


@settings(deadline=None)
@given(EXAMPLES)
def test_saved_examples_are_read_back_equal(tmp_path_factory, examples):
    path = tmp_path_factory.mktemp("examples") / "train.jsonl"
    save_examples(examples, path)
    assert load_examples(path, CATALOG) == examples
    assert [entry.name for entry in path.parent.iterdir()] == ["train.jsonl"]


def test_text_may_hold_what_other_readers_take_for_line_ends(tmp_path):
    odd = Example("1", "a\u2028b\x85c\r\nd\ve", ("x\u2029y",), ("c",))
    save_examples([odd], tmp_path / "e.jsonl")
    assert load_examples(tmp_path / "e.jsonl", CATALOG) == [odd]


def test_blank_lines_a_byte_order_mark_and_windows_line_ends_are_read(tmp_path):
    path = tmp_path / "e.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(record()).encode() + b"\r\n\r\n")
    assert load_examples(path, CATALOG) == [Example("7", "do it", ("one",), ("c",))]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", ["line 2", "not JSON"]),
        ("[" * 100_000, ["line 2", "not JSON"]),
        ("[]", ["line 2", "not a JSON object"]),
        (record(id=None), ["line 2", "'id' is missing"]),
        (record(id=3), ["line 2", "'id' is 3"]),
        (record(id=" "), ["line 2", "'id'"]),
        (record(query=None), ["line 2", "'7'", "'query' is missing"]),
        (record(query=["do", "it"]), ["line 2", "'7'", "'query'", "text"]),
        (record(query=" \n\t"), ["line 2", "'7'", "'query'", "blank"]),
        (record(query="\ud800"), ["line 2", "surrogate"]),
        (record(subtasks=["a\udfff"]), ["line 2", "surrogate"]),
        (record(id="\ud83d"), ["line 2", "surrogate"]),
        (f'{{"id": {"9" * 5_000}}}', ["line 2", "digits"]),
        (record(subtasks=None), ["line 2", "'7'", "'subtasks' is missing"]),
        (record(subtasks="one"), ["line 2", "'7'", "'subtasks'", "list"]),
        (record(subtasks=[""]), ["line 2", "'7'", "'subtasks'"]),
        (record(tools=None), ["line 2", "'7'", "'tools' is missing"]),
        (record(tools=[]), ["line 2", "'7'", "'tools' is empty"]),
        (record(tools=[1]), ["line 2", "'7'", "'tools' holds 1"]),
        (record(tools=["c"] * (LONGEST_PLAN + 1)), ["line 2", "'7'", "63 tools; at most 62"]),
        (record(tools=["c", "C"]), ["line 2", "'7'", "'C'", "not in the catalog", "catalog.json"]),
        (record(id="first"), ["line 2", "'first'", "already stands on line 1"]),
    ],
)
def test_a_bad_line_is_named_by_file_line_and_id(tmp_path, line, words):
    path = tmp_path / "bad.jsonl"
    text = line if isinstance(line, str) else json.dumps(line)
    path.write_text(json.dumps(record(id="first")) + "\n" + text + "\n")
    with pytest.raises(GraftError) as caught:
        load_examples(path, CATALOG)
    for word in (str(path), *words):
        assert word in str(caught.value)


def test_files_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(GraftError, match=r"absent\.jsonl: no such file"):
        load_examples(tmp_path / "absent.jsonl", CATALOG)
    with pytest.raises(GraftError, match="cannot be read"):
        load_examples(tmp_path, CATALOG)
    (tmp_path / "empty.jsonl").write_text("\n\n")
    with pytest.raises(GraftError, match=r"empty\.jsonl: holds no example"):
        load_examples(tmp_path / "empty.jsonl", CATALOG)
    (tmp_path / "latin.jsonl").write_bytes(b'{}\n"caf\xe9"')
    with pytest.raises(GraftError, match="line 2: is not UTF-8"):
        load_examples(tmp_path / "latin.jsonl", CATALOG)


def test_a_failed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "train.jsonl"
    good = [Example("1", "q", (), ("c",))]
    save_examples(good, path)

    def broken():
        yield good[0]
        raise RuntimeError("the source ended")

    with pytest.raises(RuntimeError, match="the source ended"):
        save_examples(broken(), path)
    assert load_examples(path, CATALOG) == good
    assert [entry.name for entry in tmp_path.iterdir()] == ["train.jsonl"]


def test_grounding_pairs_come_from_aligned_examples_alone():
    examples = [
        Example("1", "q", ("first", "second"), ("c", "a.b")),
        Example("2", "q", ("only one",), ("c", "a.b")),
        Example("3", "q", (), ("c",)),
        Example("4", "q", ("one", "two"), ("c",)),
    ]
    assert [example.aligned for example in examples] == [True, False, False, False]
    assert subtask_pairs(examples) == [("first", "c"), ("second", "a.b")]


def splits_folder(tmp_path, ids=("1", "2", "3")):
    for name, identity in zip(("train", "validation", "test"), ids, strict=True):
        write(tmp_path / f"{name}.jsonl", record(id=identity))
    (tmp_path / "catalog.json").write_text("{}")
    return tmp_path


def test_splits_are_read_by_name(tmp_path):
    splits = load_splits(splits_folder(tmp_path), CATALOG)
    assert {name: [e.id for e in members] for name, members in splits.items()} == {
        "train": ["1"],
        "validation": ["2"],
        "test": ["3"],
    }


def test_an_id_in_two_splits_and_a_missing_or_empty_split_are_refused(tmp_path):
    folder = splits_folder(tmp_path, ("1", "2", "1"))
    with pytest.raises(GraftError, match=r"'1' stands in both train\.jsonl and test\.jsonl"):
        load_splits(folder, CATALOG)
    (folder / "test.jsonl").write_text("")
    with pytest.raises(GraftError, match=r"test\.jsonl: holds no example"):
        load_splits(folder, CATALOG)
    (folder / "test.jsonl").unlink()
    with pytest.raises(GraftError, match=r"test\.jsonl: no such file"):
        load_splits(folder, CATALOG)


@pytest.mark.parametrize("name", ["catalog.json", "train.jsonl", "validation.jsonl", "test.jsonl"])
def test_the_data_hash_depends_on_every_file(tmp_path, name):
    folder = splits_folder(tmp_path)
    before = data_hash(folder)
    assert before == data_hash(folder)
    with open(folder / name, "a") as file:
        file.write(" ")
    assert data_hash(folder) != before
    (folder / name).unlink()
    with pytest.raises(GraftError, match="no such file"):
        data_hash(folder)


def test_moving_a_line_between_splits_changes_the_hash(tmp_path):
    folder = splits_folder(tmp_path)
    before = data_hash(folder)
    moved = (folder / "train.jsonl").read_text() + (folder / "validation.jsonl").read_text()
    (folder / "train.jsonl").write_text(moved)
    (folder / "validation.jsonl").write_text("")
    assert data_hash(folder) != before
