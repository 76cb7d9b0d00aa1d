"""What a run's metrics look like after it was killed and continued."""

import io
import json
import os
from pathlib import Path

import pytest
from rich.console import Console

from graft_jax.errors import GraftError
from graft_jax.training.records import METRICS, Progress, Records


def test_what_came_after_the_restored_step_is_written_anew(tmp_path: Path) -> None:
    before = [
        {"step": 1, "stage": "sft", "stage_step": 1, "loss": 2.0},
        {"step": 2, "stage": "sft", "stage_step": 2, "loss": 1.0},
        {"step": 2, "stage": "sft", "stage_step": 2, "validation": {"em": 0.5}},
    ]
    after = [
        {"step": 2, "stage": "distill", "stage_step": 0, "report": {"teacher": {"em": 0.5}}},
        {"step": 3, "stage": "distill", "stage_step": 1, "loss": 1.5},
    ]
    (tmp_path / METRICS).write_text("".join(json.dumps(line) + "\n" for line in before + after))
    records = Records(tmp_path, 2)
    for line in after:
        records.write(line)
    records.close()
    lines = (tmp_path / METRICS).read_text().splitlines()
    assert [json.loads(line) for line in lines] == before + after


def test_damaged_metrics_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    damaged = b'{"step": 1, "stage": "sft"}\n\xff\n'
    (tmp_path / METRICS).write_bytes(damaged)
    with pytest.raises(GraftError, match=r"metrics\.jsonl: is not UTF-8"):
        Records(tmp_path, 1)
    assert (tmp_path / METRICS).read_bytes() == damaged


def test_a_full_disk_is_said_with_the_file(tmp_path: Path) -> None:
    records = Records(tmp_path, -1)
    with open("/dev/full", "a") as full:
        os.dup2(full.fileno(), records._file.fileno())
    with pytest.raises(OSError, match="No space left") as caught:
        records.write({"step": 1, "stage": "sft"})
    assert caught.value.filename == str(tmp_path / METRICS)
    with pytest.raises(OSError, match="No space left"):
        records.close()


@pytest.mark.parametrize("text", ["T/[/b]x", "T/[red]x", "T/:smile:x", "long/" * 100])
def test_a_path_is_printed_as_it_is(text: str) -> None:
    said = io.StringIO()
    Progress(Console(file=said, width=40)).say(f"{text}: the planner is written")
    assert said.getvalue() == f"{text}: the planner is written\n"
