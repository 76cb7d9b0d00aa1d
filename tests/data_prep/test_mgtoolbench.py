"""MGToolBench: pairs of tool and API, filters, edges from training plans only."""

import gzip
import itertools
import json

import pytest
from made_rows import write_lines

from data_prep import mgtoolbench
from data_prep.mgtoolbench import standardise
from graft_jax.errors import GraftError

A, B, C = ("maps", "search"), ("music", "search"), ("music", "get_5_day_chart")


def api_row(identity, plan, request=None, **changes):
    request = request or f"request {identity}"
    apis = ", ".join(api for _, api in plan)
    return {
        "path": identity,
        "query": f"{request}\nAPI: {apis}.",
        "new_instruction": f"use {apis}",
        "original_query": request,
    } | changes


def tool_row(identity, plan):
    return {"path": identity, "query": f"x\nTool: {', '.join(tool for tool, _ in plan)}."}


def make(tmp_path, plans, extra=()):
    write_lines(
        tmp_path / mgtoolbench.APIS, [*(api_row(i, plan) for i, plan in plans.items()), *extra]
    )
    write_lines(tmp_path / mgtoolbench.TOOLS, [tool_row(i, plan) for i, plan in plans.items()])
    return tmp_path


PLANS = {str(i): [(A, B), (B, C), (A, B, C)][i % 3] for i in range(12)}
DESCRIBED = [
    {
        "standardized_name": "music",
        "api_list": [
            {"name": "Search", "description": ""},
            {
                "name": "search",
                "description": "Looks  for songs.<br>More\nwords.",
                "required_parameters": [{"name": "q", "type": "STRING", "description": "what"}],
                "optional_parameters": [{"name": "n", "type": "number"}, {"type": "STRING"}],
            },
            {"name": "5 day Chart", "description": ""},
        ],
    }
]


def converted(folder, **options):
    result = mgtoolbench.convert(folder, held_out=2, **options)
    return result, {e.id: e for e in itertools.chain(*result.splits.values())}


def test_a_tool_is_a_pair_of_tool_and_api(tmp_path):
    result, examples = converted(make(tmp_path, PLANS))
    assert examples["0"].tools == ("maps.search", "music.search")
    assert examples["0"].query == "request 0"
    assert set(result.catalog.names) == {"maps.search", "music.search", "music.get_5_day_chart"}
    assert not result.tally.left_out


def test_edges_come_from_training_plans_and_all_rows_stand_beside(tmp_path):
    plans = PLANS | {"only": (C, A)}
    for seed in range(6):
        result, examples = converted(make(tmp_path, plans), seed=seed)
        train = {pair for e in result.splits["train"] for pair in itertools.pairwise(e.tools)}
        every = {pair for e in examples.values() for pair in itertools.pairwise(e.tools)}
        assert result.catalog.edge_set == train
        assert set(map(tuple, result.extra["graph_all_rows.json"]["edges"])) == every


def test_rows_are_left_out_by_reason(tmp_path):
    many = tuple(("t", f"a{i}") for i in range(11))
    plans = PLANS | {"twice": (A, A), "long": many, "rare": (A, ("odd", "one"))}
    extra = [
        api_row("same", (A, B), "Request   0!"),
        api_row("0", (A, B), "another"),
        api_row("blank", (A, B), original_query=" "),
        api_row("unpaired", (A, B)),
        api_row("listless", (A, B), query="no list"),
        api_row(None, (A, B)),
    ]
    folder = make(tmp_path, plans, extra)
    with open(folder / mgtoolbench.TOOLS, "a") as file:
        for identity in ("same", "blank", "listless"):
            file.write(json.dumps(tool_row(identity, (A, B))) + "\n")
        file.write(json.dumps(tool_row("unpaired", (A, B, C))) + "\n")
    result, examples = converted(folder, most_frequent=3)
    assert set(examples) == set(PLANS)
    assert result.tally.left_out == {
        "repeats a tool": ["twice"],
        "more than 10 tools": ["long"],
        "a tool outside the 3 most frequent": ["rare"],
        "request that stood before": ["same"],
        "path that stood before": ["0"],
        "request missing or blank": ["blank"],
        "tools and APIs do not pair up": ["unpaired", "listless"],
        "row without a path": ["line 21"],
    }


@pytest.mark.parametrize("form", ["jsonl", "gz", "folder"])
def test_subtasks_and_schemas_come_from_descriptions(tmp_path, form):
    folder = make(tmp_path, PLANS)
    path = tmp_path / f"described.{form}"
    if form == "folder":
        (path / "Music").mkdir(parents=True)
        content = {"api_list": DESCRIBED[0]["api_list"]}
        (path / "Music" / "music.json").write_text(json.dumps(content))
    elif form == "gz":
        path.write_bytes(gzip.compress(json.dumps(DESCRIBED[0]).encode()))
    else:
        write_lines(path, DESCRIBED)
    result, examples = converted(folder, descriptions=path)
    assert examples["0"].subtasks == ("search with maps", "Looks for songs.")
    assert examples["1"].subtasks[1] == "get 5 day chart with music"
    tools = {tool.name: tool for tool in result.catalog.tools}
    assert tools["music.search"].description == "Looks for songs.<br>More words."
    assert tools["music.search"].parameters == {
        "type": "object",
        "properties": {
            "q": {"type": "string", "description": "what"},
            "n": {"type": "number", "description": ""},
        },
        "required": ["q"],
    }
    assert tools["maps.search"].parameters is None
    assert result.tally.kept == {
        "tool without an entry among the descriptions": ["maps.search"],
        "tool whose description is empty": ["music.get_5_day_chart"],
    }
    assert path in result.files


def test_missing_and_damaged_descriptions_are_named(tmp_path):
    folder = make(tmp_path, PLANS)
    with pytest.raises(GraftError, match="no such file"):
        converted(folder, descriptions=tmp_path / "absent.jsonl")
    (tmp_path / "none").mkdir()
    with pytest.raises(GraftError, match=r"no \.json file"):
        converted(folder, descriptions=tmp_path / "none")
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(b"{}" * 100)[:20])
    with pytest.raises(GraftError, match=r"cut\.jsonl\.gz: cannot be read"):
        converted(folder, descriptions=tmp_path / "cut.jsonl.gz")


@pytest.mark.parametrize(
    ("name", "standard"),
    [
        ("5 day Forecast", "get_5_day_forecast"),
        ("/v1/Verify", "v1_verify"),
        ("a__B - c!", "a_b_c"),
        ("👋", ""),
    ],
)
def test_api_names_in_the_published_spelling(name, standard):
    assert standardise(name) == standard


@pytest.mark.parametrize(
    "tool",
    [
        {"api_list": 5},
        {"api_list": [5]},
        {"api_list": [{"name": "search", "required_parameters": "q"}]},
        {"api_list": [{"name": "search", "optional_parameters": ["q"]}]},
    ],
)
def test_descriptions_of_another_form_are_named(tmp_path, tool):
    folder = make(tmp_path, PLANS, [{"path": ["no", "text"]}])
    write_lines(tmp_path / "described.jsonl", [{"standardized_name": "music"} | tool])
    with pytest.raises(GraftError, match=r"described\.jsonl, .*music.*is no list of objects"):
        converted(folder, descriptions=tmp_path / "described.jsonl")
