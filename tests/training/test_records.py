"""What a run's metrics look like after it was killed and continued."""

import json
from pathlib import Path

from graft_jax.training.records import METRICS, Records


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
