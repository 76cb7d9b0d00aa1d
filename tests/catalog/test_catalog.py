"""The catalog as a value, and `catalog.json` read, mended, refused and written."""

import json
import logging
import time

import networkx as nx
import numpy as np
import pytest

from graft_jax.catalog import Catalog, Tool, load_catalog, save_catalog
from graft_jax.catalog.names import tool_tokens
from graft_jax.errors import GraftError

TOOLS = tuple(Tool(name, f"Does {name}.") for name in ("find", "read", "send", "sleep"))
EDGES = (("find", "send"), ("find", "read"), ("read", "read"), ("read", "find"))
CATALOG = Catalog(TOOLS, EDGES)


def write(tmp_path, content) -> str:
    path = tmp_path / "catalog.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return str(path)


def test_views_agree_with_the_edges():
    assert CATALOG.names == ("find", "read", "send", "sleep")
    assert CATALOG.index == {"find": 0, "read": 1, "send": 2, "sleep": 3}
    assert [row.tolist() for row in CATALOG.successors] == [[1, 2], [0, 1], [], []]
    assert all(row.dtype == np.int32 for row in CATALOG.successors)
    assert CATALOG.edge_set == set(EDGES)
    assert isinstance(CATALOG.graph, nx.DiGraph)
    assert list(CATALOG.graph) == list(CATALOG.names)
    assert set(CATALOG.graph.edges) == set(EDGES)
    assert len(CATALOG) == 4


@pytest.mark.parametrize(
    ("plan", "legal"),
    [
        ([], False),
        (["sleep"], True),
        (["nap"], False),
        (["find", "read", "read", "find", "send"], True),
        (["send", "find"], False),
        (["find", "nap"], False),
    ],
)
def test_a_plan_is_legal_when_all_its_pairs_are_edges(plan, legal):
    assert CATALOG.is_legal(plan) is legal


def test_content_hash_sees_content_and_order_of_tools_but_not_order_of_edges():
    assert Catalog(TOOLS, EDGES[::-1]).content_hash() == CATALOG.content_hash()
    others = [
        Catalog(TOOLS[::-1], EDGES),
        Catalog(TOOLS, EDGES[:-1]),
        Catalog((*TOOLS[:-1], Tool("sleep", "Rests.")), EDGES),
        Catalog((*TOOLS[:-1], Tool("sleep", "Does sleep.", {})), EDGES),
    ]
    assert len({c.content_hash() for c in (CATALOG, *others)}) == 5


def test_save_then_load_gives_the_same_catalog(tmp_path):
    schema = {"type": "object", "properties": {"数": {"type": "integer"}}}
    tools = (*TOOLS, Tool("👋 Demo", "", schema, {}), Tool('/1/"quoted"/<script_hash>', "天气"))
    catalog = Catalog(tools, (*EDGES, ("👋 Demo", "👋 Demo")))
    path = tmp_path / "catalog.json"
    save_catalog(catalog, path)
    report: list[str] = []
    assert load_catalog(path, report) == catalog
    assert list(tmp_path.iterdir()) == [path]
    assert json.loads(path.read_text(encoding="utf-8")) == catalog.to_json()
    assert len(report) == 1
    assert "without a description: 1" in report[0]


def test_a_failed_save_leaves_the_old_file_alone(tmp_path, monkeypatch):
    path = tmp_path / "catalog.json"
    save_catalog(CATALOG, path)
    before = path.read_bytes()

    def full_disk(*_):
        raise OSError("no space left")

    monkeypatch.setattr("os.replace", full_disk)
    with pytest.raises(OSError, match="no space left"):
        save_catalog(CATALOG.without_tool("read"), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_adding_and_removing_a_tool_gives_new_catalogs():
    more = CATALOG.with_tool(Tool("log"), predecessors=["send", "log"], successors=["sleep", "log"])
    assert more.names == (*CATALOG.names, "log")
    new = more.edge_set - CATALOG.edge_set
    assert new == {("send", "log"), ("log", "sleep"), ("log", "log")}
    assert more.without_tool("log") == CATALOG
    assert len(CATALOG) == 4
    fewer = CATALOG.without_tool("read")
    assert fewer.names == ("find", "send", "sleep")
    assert fewer.edges == (("find", "send"),)


def test_adding_and_removing_refuse_what_cannot_be():
    with pytest.raises(GraftError, match="already"):
        CATALOG.with_tool(Tool("read"))
    with pytest.raises(GraftError, match="no tool 'nap'"):
        CATALOG.with_tool(Tool("log"), predecessors=["nap"])
    with pytest.raises(GraftError, match="no tool 'nap'"):
        CATALOG.without_tool("nap")
    with pytest.raises(GraftError, match="no tools"):
        Catalog((Tool("only"),), ()).without_tool("only")


def test_what_was_mended_or_is_missing_is_reported(tmp_path, caplog):
    path = write(
        tmp_path,
        {
            "tools": [
                {"name": "search-a", "description": None, "parameters": {}},
                {"name": "Search_A", "description": "Finds.", "colour": "red"},
            ],
            "edges": [["search-a", "Search_A"], ["search-a", "Search_A"]],
        },
    )
    report: list[str] = []
    catalog = load_catalog(path, report)
    assert catalog.tools[0] == Tool("search-a", "", {})
    assert catalog.edges == (("search-a", "Search_A"),)
    assert len(report) == 4
    assert all(line.startswith(path) for line in report)
    text = "\n".join(report)
    for word in ("colour", "without a description: 1", "case or punctuation: 1", "kept once: 1"):
        assert word in text
    with caplog.at_level(logging.WARNING):
        load_catalog(path)
    assert [record.getMessage() for record in caplog.records] == report


A = {"name": "a", "description": "A."}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"tools": [\n{"name": "a",}\n]}', "line 2, column"),
        ("", "line 1"),
        ([A], "no list of tools"),
        ({"edges": []}, "no list of tools"),
        ({"tools": {"a": A}}, "no list of tools"),
        ({"tools": []}, "no tools"),
        ({"tools": ["a"]}, "tool 0 is a string"),
        ({"tools": [A, {"description": "x"}]}, "tool 1: its name is missing or null"),
        ({"tools": [{"name": 3}]}, "tool 0: its name is a number"),
        ({"tools": [{"name": "  "}]}, "tool 0: its name is empty"),
        ({"tools": [A, A]}, "tool 1: the name 'a' is already that of tool 0"),
        ({"tools": [{"name": "a", "description": ["x"]}]}, "description is a list"),
        ({"tools": [{"name": "a", "parameters": "x"}]}, "parameters are a string"),
        ({"tools": [{"name": "a\ud83d"}]}, "tool 0 .*surrogate"),
        ({"tools": [A, {"name": "b", "parameters": {"k": ["\ud800"]}}]}, "tool 1 .*surrogate"),
        ({"tools": [{"name": "b", "outputs": {"\ud800": 1}}]}, "tool 0 .*surrogate"),
        ({"tools": [A], "edges": {"a": "a"}}, "edges are not a list"),
        ({"tools": [A], "edges": [["a", "a"], ["a", "b"]]}, "edge 1 .*no tool 'b'"),
        ({"tools": [A], "edges": [["a"]]}, "edge 0 .*pair"),
        ({"tools": [A], "edges": ["aa"]}, "edge 0 .*pair"),
        ({"tools": [A], "edges": [["a", 1]]}, "edge 0 .*names"),
        ({"tools": [A], "edges": [["a", ["a"]]]}, "edge 0 .*names"),
        ('{"tools": [{"name": "a", "parameters": {"k": ' + "9" * 5_000 + "}}]}", "digits"),
        ("[" * 200_000, "deeply|line 1"),
    ],
)
def test_bad_input_is_refused_with_file_record_and_remedy(tmp_path, content, message):
    path = write(tmp_path, content)
    with pytest.raises(GraftError, match=message) as caught:
        load_catalog(path)
    assert str(caught.value).startswith(path)


@pytest.mark.parametrize(
    ("tool", "message"),
    [
        ("a", "a string; expected a Tool"),
        ({"name": "a"}, "an object; expected a Tool"),
        (Tool(5), "its name is a number"),
        (Tool(" "), "its name is empty"),
        (Tool("a", None), "its description is missing or null"),
        (Tool("a", "x", "x"), "its parameters are a string"),
        (Tool("a\ud800"), "surrogate"),
        (Tool("a", "\udfff"), "surrogate"),
        (Tool("a", "x", {"k": {"v"}}), "set is not JSON serializable"),
        (Tool("a", "x", {"k": 10**5_000}), "digits"),
    ],
)
def test_a_catalog_from_python_is_held_to_the_same_as_one_from_a_file(tool, message):
    with pytest.raises(GraftError, match=f"tool 0 .*{message}|tool 0: .*{message}"):
        Catalog((tool,), ())
    with pytest.raises(GraftError, match=f"tool 4.*{message}"):
        CATALOG.with_tool(tool)


@pytest.mark.parametrize("edge", ["find", ("find",), ("find", 5), ("find", ["read"]), None])
def test_an_edge_from_python_is_a_pair_of_names(edge):
    with pytest.raises(GraftError, match="edge 0 is"):
        Catalog(TOOLS, (edge,))
    with pytest.raises(GraftError, match="edge 4 is"):
        CATALOG.with_tool(Tool("log"), predecessors=[["find"]])


def test_a_file_that_is_missing_a_folder_or_not_utf8_is_refused(tmp_path):
    with pytest.raises(GraftError, match="no such file"):
        load_catalog(tmp_path / "nowhere.json")
    with pytest.raises(GraftError, match="cannot be read"):
        load_catalog(tmp_path)
    (tmp_path / "latin.json").write_bytes(b'{"tools": [{"name": "caf\xe9"}]}')
    with pytest.raises(GraftError, match="UTF-8 at byte"):
        load_catalog(tmp_path / "latin.json")
    (tmp_path / "bom.json").write_bytes(b'\xef\xbb\xbf{"tools": [{"name": "a"}]}')
    assert load_catalog(tmp_path / "bom.json", []).names == ("a",)


def test_forty_seven_thousand_tools_load_within_seconds(tmp_path):
    tools = tuple(Tool(f"server{i % 97}/tool {i}", "Does a thing.", {}) for i in range(47_000))
    names = [tool.name for tool in tools]
    rng = np.random.default_rng(0)
    ends = dict.fromkeys(map(tuple, rng.integers(len(tools), size=(100_000, 2)).tolist()))
    catalog = Catalog(tools, tuple((names[i], names[j]) for i, j in ends))
    path = tmp_path / "catalog.json"
    save_catalog(catalog, path)
    start = time.process_time()
    loaded = load_catalog(path, [])
    assert sum(map(len, loaded.successors)) == len(catalog.edges)
    assert len(set(tool_tokens(loaded.names))) == len(tools)
    assert time.process_time() - start < 10
    assert loaded.names == catalog.names
