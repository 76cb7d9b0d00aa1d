"""The quickstart's catalog and requests: what follows from the types, and what a split promises."""

import json
import random
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from string import Formatter

import networkx as nx
import numpy as np
import pytest

from data_prep.quickstart import make_splits, write_quickstart
from data_prep.quickstart_catalog import FLOWING_TYPES, linking, quickstart_catalog, semantic_types
from data_prep.quickstart_phrases import (
    ASIDES,
    GOALS,
    IMPLIED,
    TYPE_NOUNS,
    VALUES,
    WORDINGS,
)
from data_prep.quickstart_plans import LENGTH_SHARES, is_sensible, lengths, sources
from data_prep.quickstart_requests import write_request
from graft_jax.catalog.catalog import load_catalog
from graft_jax.data.examples import data_hash, load_splits
from graft_jax.errors import GraftError

DEFAULT = {"seed": 0, "train": 3000, "validation": 150, "test": 200}
SMALL = {"seed": 5, "train": 400, "validation": 20, "test": 30}
CATALOG = quickstart_catalog()


@pytest.fixture(scope="module")
def splits():
    return make_splits(**DEFAULT)[1]


# The catalog


def test_the_graph_follows_from_the_types_and_from_nothing_else():
    for a in CATALOG.tools:
        for b in CATALOG.tools:
            produced = {v["x-semantic-type"] for v in a.outputs["properties"].values()}
            taken = {v["x-semantic-type"] for v in b.parameters["properties"].values()}
            assert ((a.name, b.name) in CATALOG.edge_set) == (a != b and bool(produced & taken))


def test_every_edge_carries_exactly_one_type():
    """Else a request could not say which of two things flows."""
    tool = dict(zip(CATALOG.names, CATALOG.tools, strict=True))
    assert all(len(linking(tool[a], tool[b])) == 1 for a, b in CATALOG.edges)


def test_outputs_flow_and_every_flowing_type_is_made_and_used():
    made = set().union(*(semantic_types(tool.outputs) for tool in CATALOG.tools))
    used = set().union(*(semantic_types(tool.parameters) for tool in CATALOG.tools))
    assert made == set(FLOWING_TYPES)
    assert made <= used


def test_the_graph_is_neither_trivial_nor_complete():
    assert 38 <= len(CATALOG) <= 48
    assert 3 <= len(CATALOG.edges) / len(CATALOG) <= 8
    reachable = set().union(*(nx.descendants(CATALOG.graph, name) for name in sources(CATALOG)))
    assert reachable | set(sources(CATALOG)) == set(CATALOG.names)
    reversed_too = sum((b, a) in CATALOG.edge_set for a, b in CATALOG.edges)
    assert 0 < reversed_too < len(CATALOG.edges) / 4


def test_schemas_say_what_is_required():
    for tool in CATALOG.tools:
        schema = tool.parameters
        choices = {name for option in schema.get("oneOf", []) for name in option["required"]}
        assert set(schema["required"]) | choices == set(schema["properties"])
        assert tool.description


# The wordings


def test_every_use_of_a_tool_has_six_phrasings():
    needed = {(a, *linking(*_pair(a, b))) for a, b in CATALOG.edges}
    needed |= {(name, "") for name in CATALOG.names if not CATALOG.graph.out_degree(name)}
    assert needed == set(WORDINGS)
    for wording in WORDINGS.values():
        assert len(set(wording.do)) == len(wording.do) >= 6


def test_what_comes_from_the_step_before_has_its_place_in_every_phrase():
    first = set(sources(CATALOG))
    for (tool, flows), wording in WORDINGS.items():
        for text in wording.do + wording.noun:
            assert ("{it}" in text) == (tool not in first), (tool, text)
        assert bool(wording.ref) == bool(flows)


def test_every_slot_has_values():
    texts = [text for wording in WORDINGS.values() for text in wording.do + wording.noun]
    texts += [remark for _, remark in ASIDES]
    slots = {name for text in texts for _, name, _, _ in Formatter().parse(text) if name}
    assert slots - {"it", "picture"} <= set(VALUES)
    assert set(TYPE_NOUNS) == set(FLOWING_TYPES) >= {kind for kind, _ in ASIDES if kind}


def test_a_step_is_left_out_only_where_the_next_one_cannot_do_without_it():
    for a, b in IMPLIED:
        before, after = _pair(a, b)
        assert not semantic_types(before.parameters) & semantic_types(after.parameters)


def test_tools_that_do_the_same_to_different_types_share_phrases():
    assert WORDINGS["text_translate", "text"].do == WORDINGS["document_translate", "document"].do
    assert set(WORDINGS["document_mail", ""].do) & set(WORDINGS["mail_forward", ""].do)


# The requests


def test_plans_are_legal_sensible_and_start_from_words(splits):
    for example in _all(splits):
        assert CATALOG.is_legal(example.tools)
        assert is_sensible(example.tools)
        assert example.tools[0] in sources(CATALOG)
        assert len(example.subtasks) == len(example.tools)


def test_no_text_names_a_tool(splits):
    names = [re.sub(r"_", "[_ -]?", name) for name in CATALOG.names]
    named = re.compile("|".join(names), re.IGNORECASE)
    for example in _all(splits):
        for text in (example.query, *example.subtasks):
            assert not named.search(text), text


def test_no_slot_is_left_open_and_texts_are_well_formed(splits):
    for example in _all(splits):
        for text in (example.query, *example.subtasks):
            assert not re.search(r"[{}]|  |\bNone\b| [,.;?]|[.,;]{2}", text), text
            assert text == text.strip()
        assert example.query[-1] in ".?"


def test_no_request_stands_twice(splits):
    examples = _all(splits)
    assert len({example.query.casefold() for example in examples}) == len(examples)
    assert len({example.id for example in examples}) == len(examples)


@pytest.mark.parametrize("settings", [DEFAULT, SMALL], ids=["default", "small"])
def test_half_of_the_held_out_requests_have_plans_of_their_own(settings):
    _, splits = make_splits(**settings)
    plans = {name: {example.tools for example in rows} for name, rows in splits.items()}
    for name in ("validation", "test"):
        unseen = [row for row in splits[name] if row.tools not in plans["train"]]
        assert len(unseen) == len(splits[name]) / 2
        assert {len(row.tools) for row in unseen} == set(LENGTH_SHARES)
    assert not (plans["validation"] & plans["test"]) - plans["train"]


def test_every_held_out_edge_stands_in_training(splits):
    train = Counter(edge for row in splits["train"] for edge in pairwise(row.tools))
    for row in splits["validation"] + splits["test"]:
        assert all(train[edge] >= 2 for edge in pairwise(row.tools))


def test_lengths_follow_the_shares(splits):
    for rows in splits.values():
        counts = Counter(len(row.tools) for row in rows)
        for length, share in LENGTH_SHARES.items():
            assert abs(counts[length] - share * len(rows)) <= 2
    assert sum(LENGTH_SHARES.values()) == pytest.approx(1)
    assert all(len(lengths(count)) == count for count in range(60))


def test_every_tool_is_trained_and_none_rules(splits):
    uses = Counter(tool for row in splits["train"] for tool in row.tools)
    assert set(uses) == set(CATALOG.names)
    assert min(uses.values()) >= 20
    assert max(uses.values()) <= 0.25 * len(splits["train"])


def test_requests_are_short(splits):
    words = sorted(len(row.query.split()) for row in _all(splits))
    assert sum(words) / len(words) <= 40
    assert words[-1] <= 90


def test_requests_are_varied(splits):
    """Distinct word 4-grams, openings, and step texts: far from one fixed phrase a tool."""
    rows = splits["train"]
    grams = [
        tuple(words[i : i + 4])
        for words in (row.query.casefold().split() for row in rows)
        for i in range(len(words) - 3)
    ]
    assert len(set(grams)) / len(grams) > 0.4
    openings = Counter(" ".join(row.query.split()[:3]) for row in rows)
    assert openings.most_common(1)[0][1] <= 0.05 * len(rows)
    texts: dict[str, set[str]] = {}
    for row in rows:
        for tool, text in zip(row.tools, row.subtasks, strict=True):
            texts.setdefault(tool, set()).add(text)
    assert min(len(found) for found in texts.values()) >= 6


def test_steps_are_told_in_another_order_than_they_run_in_some_requests(splits):
    """Goal-first requests: the last step is named before the steps that lead to it."""
    heads = [re.escape(text.split("{")[0].strip()) for text in GOALS if not text.startswith("{")]
    goal_first = re.compile("|".join(heads))
    share = np.mean([bool(goal_first.search(row.query)) for row in splits["train"]])
    assert 0.1 < share < 0.4


def test_a_request_fills_the_same_values_as_its_subtasks():
    rng = random.Random(1)
    plan = ("file_search", "document_sign", "document_mail")
    people = set(VALUES["person"])
    for _ in range(50):
        query, subtasks = write_request(CATALOG, plan, rng)
        (person,) = people & set(re.findall(r"\w+", subtasks[2]))
        (file,) = [file for file in VALUES["file"] if file in subtasks[0]]
        assert person in query
        assert file in query


# The folder


def test_the_same_seed_writes_the_same_bytes_in_every_process(tmp_path):
    script = Path(__file__).parents[2] / "data_prep" / "quickstart.py"
    flags = [f"--{key}={value}" for key, value in SMALL.items()]
    command = [sys.executable, str(script), "--out", str(tmp_path / "b"), *flags]
    write_quickstart(tmp_path / "a", SMALL)
    run = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert "30 requests" in run.stdout
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    splits = [f"{name}.jsonl" for name in ("test", "train", "validation")]
    assert files == ["catalog.json", "manifest.json", *splits]
    for name in files:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_another_seed_writes_other_requests():
    queries = [
        {row.query for row in make_splits(**{**SMALL, "seed": seed})[1]["train"]} for seed in (1, 2)
    ]
    assert len(queries[0] & queries[1]) < 0.2 * len(queries[0])


def test_the_folder_reads_back_and_its_manifest_counts_right(tmp_path):
    out = tmp_path / "deep" / "quickstart"
    write_quickstart(out, SMALL)
    catalog = load_catalog(out / "catalog.json")
    assert catalog == CATALOG
    splits = load_splits(out, catalog)
    made = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    assert made["data_hash"] == data_hash(out)
    assert made["settings"] == SMALL
    plans = {row.tools for row in splits["train"]}
    for name, rows in splits.items():
        assert made["splits"][name]["examples"] == len(rows) == SMALL[name]
        assert made["splits"][name]["unseen"] == sum(row.tools not in plans for row in rows)
        assert made["splits"][name]["edges_not_in_training_plans"] == 0


def test_writing_again_changes_nothing_and_never_overwrites_other_data(tmp_path):
    out = tmp_path / "quickstart"
    made = write_quickstart(out, SMALL)
    before = (out / "manifest.json").stat().st_mtime_ns
    assert write_quickstart(out, SMALL) == made
    assert (out / "manifest.json").stat().st_mtime_ns == before
    with pytest.raises(GraftError, match="already exists"):
        write_quickstart(out, {**SMALL, "seed": 6})
    (out / "train.jsonl").unlink()
    with pytest.raises(GraftError, match="already exists"):
        write_quickstart(out, SMALL)


def test_a_target_that_cannot_be_written_is_found_before_anything_is_made(tmp_path, monkeypatch):
    monkeypatch.setattr("data_prep.quickstart.make_splits", lambda **_: pytest.fail("made"))
    (tmp_path / "file").write_text("x")
    (tmp_path / "full").mkdir()
    for out in ("file", "full"):
        with pytest.raises(GraftError, match="already exists"):
            write_quickstart(tmp_path / out, SMALL)
    with pytest.raises(OSError, match="file"):
        write_quickstart(tmp_path / "file" / "quickstart", SMALL)


def test_of_two_at_once_the_second_finds_the_firsts(tmp_path):
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: write_quickstart(tmp_path / "q", SMALL), range(2))
    assert first == second
    assert [path.name for path in tmp_path.iterdir()] == ["q"]


def test_a_failure_leaves_nothing_behind(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("data_prep.quickstart.save_examples", fail)
    with pytest.raises(OSError, match=r"No space left.*quickstart"):
        write_quickstart(tmp_path / "quickstart", SMALL)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train": 5}, "--train 5 is too small"),
        ({"test": -1}, "--test -1 is too small"),
        ({"test": 1_000_000}, "--test 1000000 is too large"),
        ({"train": 60}, "too few to hold out plans"),
    ],
)
def test_sizes_that_cannot_work_are_refused_with_a_remedy(tmp_path, change, message):
    with pytest.raises(GraftError, match=message):
        write_quickstart(tmp_path / "quickstart", {**SMALL, **change})
    assert not (tmp_path / "quickstart").exists()


def _all(splits):
    return [row for rows in splits.values() for row in rows]


def _pair(a: str, b: str):
    return CATALOG.tools[CATALOG.index[a]], CATALOG.tools[CATALOG.index[b]]
