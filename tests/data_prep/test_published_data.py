"""The converters over the published files: the counts that the data sets' papers and notes give.

Needs the published data: GRAFT_DATA names the folder that holds ultratool/raw and the like.
"""

import hashlib
import itertools
import json
import os
from collections import Counter
from pathlib import Path

import pytest

from data_prep import mgtoolbench, taskbench, ultratool
from data_prep.download import PUBLISHED
from data_prep.manifest import build
from graft_jax.data.examples import subtask_pairs

pytestmark = pytest.mark.data


@pytest.fixture(scope="module")
def data():
    return Path(os.environ["GRAFT_DATA"])


def count(tally, words):
    return sum(len(ids) for why, ids in tally.items() if words in why)


def test_ultratool_whole(data):
    result = ultratool.convert(data / "ultratool" / "raw")
    assert (len(result.catalog.tools), len(result.catalog.edges), result.rows_read) == (
        260,
        611,
        3527,
    )
    sizes = {name: len(members) for name, members in result.splits.items()}
    assert sizes == {"train": 2527, "validation": 500, "test": 500}
    examples = list(itertools.chain(*result.splits.values()))
    lengths = Counter(len(example.tools) for example in examples)
    assert lengths == {2: 2266, 3: 1034, 4: 205, 5: 22}
    official = json.loads((data / "ultratool" / "raw" / "split_ids.json").read_text())
    assert {e.id for e in result.splits["test"]} == set(official["test_ids"]["chain"])
    kept, left_out = result.tally.kept, result.tally.left_out
    assert count(kept, "more steps than tools") == 315
    assert count(kept, "fewer steps than tools") == 13
    assert count(kept, "repeats a tool") == 39
    assert count(kept, "outer white space") == 1300
    assert sum(example.aligned for example in examples) == 3199
    lacking = next(ids for why, ids in kept.items() if "tool graph lacks" in why)
    assert set(lacking) == {"790", "1029", "982", "1001"}
    assert list(left_out) == ["request in user_requests.json without a row in data.json"]
    assert count(left_out, "without a row") == 11
    by_id = {example.id: example for example in examples}
    assert by_id["3496"].tools == ("postal_code_search",) * 2
    assert by_id["937"].tools[0] == by_id["937"].tools[2] != by_id["937"].tools[1]
    assert "\u00a0" in by_id["378"].query


def test_ultratool_audit(data):
    audit = build(ultratool.convert(data / "ultratool" / "raw"))["leak_audit"]
    assert audit["raw_subtasks_naming_tool"]["share"] == pytest.approx(0.995, abs=5e-4)
    assert audit["subtasks_naming_tool"]["count"] == 0
    assert audit["test_queries_seen_in_train"]["count"] == 0


def test_ultratool_paper_filter(data):
    result = ultratool.convert(data / "ultratool" / "raw", filter="paper")
    assert sum(len(members) for members in result.splits.values()) == 3185
    assert len(result.splits["test"]) == 445
    assert count(result.tally.left_out, "i-th tool") == 27


def test_mgtoolbench(data):
    result = mgtoolbench.convert(
        data / "mgtoolbench" / "raw",
        descriptions=data / "toolbench_catalog" / "raw" / "toolbench_catalog_compact.jsonl.gz",
    )
    examples = list(itertools.chain(*result.splits.values()))
    assert (result.rows_read, len(examples), len(result.catalog.tools)) == (5000, 4047, 602)
    assert len(result.extra["graph_all_rows.json"]["edges"]) == 3221
    assert max(len(example.tools) for example in examples) == 10
    assert count(result.tally.left_out, "request that stood before") == 22
    assert count(result.tally.left_out, "repeats a tool") == 111
    audit = build(result)["leak_audit"]
    assert audit["test_plans_with_unseen_edge"]["share"] == pytest.approx(0.42, abs=0.02)
    assert audit["test_plans_outside_graph"] == audit["test_plans_with_unseen_edge"]
    assert len(subtask_pairs(examples)) == sum(len(example.tools) for example in examples)


def test_taskbench_dags_are_counted_not_planned(data, tmp_path):
    raw = data / "taskbench" / "raw" / "multimedia"
    for name in ("graph_desc.json", "tool_desc.json"):
        (tmp_path / name).write_bytes((raw / name).read_bytes())
    dags = (raw / "processtbench_multimedia_dag.json").read_text()
    # Two made rows of two linked tools beside the real ones, so that there is a chain to keep.
    link = json.loads((raw / "graph_desc.json").read_text())["links"][0]
    made = {
        "user_request": "r",
        "task_steps": ["Step 1: a", "Step 2: b"],
        "task_nodes": [{"task": link["target"]}, {"task": link["source"]}],
        "task_links": [link],
        "type": "chain",
    }
    rows = [json.dumps(made | {"id": f"made {i}"}) for i in range(3)]
    (tmp_path / "data.json").write_text(dags.rstrip("\n") + "\n" + "\n".join(rows) + "\n")
    result = taskbench.convert(tmp_path, official=False, held_out=1)
    assert count(result.tally.left_out, "type dag") == 565
    assert result.paper is not None
    assert result.splits["test"][0].tools == (link["source"], link["target"])
    chains = dags.replace('"type": "dag"', '"type": "chain"')
    (tmp_path / "data.json").write_text(chains.rstrip("\n") + "\n" + "\n".join(rows) + "\n")
    left_out = taskbench.convert(tmp_path, official=False, held_out=1).tally.left_out
    assert left_out["no tools"] == ["12139770"]
    assert set(left_out["several tools without links"]) == {"14628858", "16344207", "32426140"}


def test_hashes_of_the_published_table(data):
    for key, published in PUBLISHED.items():
        head, _, tail = key.partition("/")
        folder = data / head / "raw" / tail
        for name, expected in published.files.items():
            if expected is not None:
                assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == expected
