"""The leak audit against counts made by hand."""

import json

import pytest

from graft_jax.catalog.catalog import Catalog, Tool
from graft_jax.data.examples import Example
from graft_jax.evaluation.leaks import audit, names_tool, normalise, spells_tool

CATALOG = Catalog(
    tuple(Tool(name) for name in ("send_email", "find", "book")),
    (("find", "book"), ("book", "send_email")),
)
SPLITS = {
    "train": [
        Example("1", "Find a table!", ("find one", "send the mail"), ("find", "book")),
        Example("2", "Write to Ann", (), ("book", "send_email")),
    ],
    "validation": [Example("3", "find a TABLE", ("x",), ("find", "find"))],
    "test": [
        Example("4", "find  a table", ("look up", "reserve"), ("find", "book")),
        Example("5", "another", ("look up", "call send_email now"), ("find", "send_email")),
        Example("6", "a third", ("send email to Bo",), ("send_email",)),
    ],
}


def test_counts_made_by_hand():
    raw = {"1": ["Call find to look", "Call book to do it"], "4": ["one step", "two", "three"]}
    found = audit(SPLITS, CATALOG, raw)

    def share(key):
        return found[key]["count"], found[key]["of"]

    assert share("test_plans_seen_in_train") == (1, 3)
    assert share("test_edges_unseen_in_train") == (1, 2)
    assert share("test_plans_with_unseen_edge") == (1, 3)
    assert share("test_edges_outside_graph") == (1, 2)
    assert share("test_plans_outside_graph") == (1, 3)
    assert share("subtasks_naming_tool") == (2, 7)
    assert share("subtasks_spelling_tool") == (3, 7)
    assert share("raw_subtasks_naming_tool") == (2, 2)
    assert found["duplicate_queries"] == {
        "train, validation": 1,
        "train, test": 1,
        "validation, test": 1,
    }
    assert share("test_queries_seen_in_train") == (1, 3)
    assert found["test_plans_seen_in_train"]["share"] == pytest.approx(1 / 3)
    assert json.loads(json.dumps(found)) == found


def test_a_share_of_nothing_is_none_and_raw_texts_are_optional():
    single = {name: [Example(name, name, (), ("find",))] for name in SPLITS}
    found = audit(single, CATALOG)
    assert found["test_edges_unseen_in_train"] == {"count": 0, "of": 0, "share": None}
    assert found["subtasks_naming_tool"]["share"] is None
    assert found["raw_subtasks_naming_tool"] is None


@pytest.mark.parametrize(
    ("text", "tool", "named", "spelled"),
    [
        ("Call send_email to tell", "send_email", True, True),
        ("SEND_EMAIL", "send_email", True, True),
        ("send an email", "send_email", False, False),
        ("please send email", "send_email", False, True),
        ("resend_emails", "send_email", False, False),
        ("use a.b (beta)", "a.b", True, True),
        ("use axb", "a.b", False, False),
        ("<<<h1>name</h1>&&qsds>>", "<<<h1>name</h1>&&qsds>>", True, True),
        ("anything", "👋", False, False),
        ("", "find", False, False),
    ],
)
def test_names_are_found_as_whole_words(text, tool, named, spelled):
    assert names_tool(text, tool) is named
    assert spells_tool(text, tool) is spelled


def test_normalising_twice_is_normalising_once():
    text = "  Straße,\u00a0日本 -- SEND_email 8:30\n"
    assert normalise(text) == "strasse 日本 send email 8 30"
    assert normalise(normalise(text)) == normalise(text)
