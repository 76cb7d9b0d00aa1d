"""A small folder in the format that UltraTool and TaskBench share."""

import json

import pytest
from made_rows import LINKS, TOOLS, row, write_lines


@pytest.fixture
def make_folder(tmp_path):
    """make_folder(rows, test_ids=("1",), requests=None) -> a folder of published files."""

    def make(rows, test_ids=("1",), requests=None, nodes=None):
        folder = tmp_path / "published"
        folder.mkdir(exist_ok=True)
        nodes = nodes or [{"id": tool, "desc": f"{tool} in words"} for tool in TOOLS]
        links = [{"source": a, "target": b, "type": "complete"} for a, b in LINKS]
        (folder / "tool_desc.json").write_text(json.dumps({"nodes": nodes}))
        (folder / "graph_desc.json").write_text(json.dumps({"nodes": nodes, "links": links}))
        write_lines(folder / "data.json", rows)
        if test_ids:
            (folder / "split_ids.json").write_text(
                json.dumps({"test_ids": {"chain": list(test_ids)}})
            )
        if requests:
            write_lines(folder / "user_requests.json", requests)
        return folder

    return make


@pytest.fixture
def good_rows():
    """Ten rows without anything odd."""
    return [row(str(i), ("find_hotel", "book_hotel", "send_note")[: 2 + i % 2]) for i in range(10)]
