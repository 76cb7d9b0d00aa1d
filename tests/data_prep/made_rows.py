"""Rows of our own in the format that UltraTool and TaskBench share."""

import itertools
import json

TOOLS = ("find_hotel", "book_hotel", "send_note", "bye")
LINKS = (
    ("find_hotel", "book_hotel"),
    ("book_hotel", "send_note"),
    ("send_note", "send_note"),
    ("send_note", "bye"),
)


def row(identity, plan, steps=None, **changes):
    """A row of data.json with one "Call X" step a tool, unless steps are given."""
    if steps is None:
        steps = [f"Step {i} Call {tool} to do part {i}" for i, tool in enumerate(plan, 1)]
    return {
        "id": identity,
        "user_request": f"request {identity}",
        "task_steps": steps,
        "task_nodes": [{"task": tool} for tool in plan],
        "task_links": [{"source": a, "target": b} for a, b in itertools.pairwise(plan)],
        "n_tools": len(plan),
        "type": "chain",
    } | changes


def write_lines(path, rows):
    path.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows), "utf-8")
