"""A run killed at any moment ends as one that was not: weights bit for bit, metrics too."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

SCRIPT = Path(__file__).with_name("run_once.py")


def run_once(run: Path, data: Path, backbone: Path, point: str = "end", count: int = 0) -> int:
    command = [sys.executable, str(SCRIPT), str(run), str(data), str(backbone), point, str(count)]
    # Every process compiles the same programs, and none of them has to be fast.
    settings = {
        "JAX_PLATFORMS": "cpu",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
        "JAX_COMPILATION_CACHE_DIR": str(backbone.parent / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env=os.environ | settings,
    )
    assert done.returncode in (0, 130, -signal.SIGKILL), done.stderr[-2000:]
    return done.returncode


@pytest.fixture(scope="module")
def unbroken(
    tmp_path_factory: pytest.TempPathFactory, tiny_data: Path, tiny_backbone: Path
) -> Path:
    run = tmp_path_factory.mktemp("unbroken") / "run"
    assert run_once(run, tiny_data, tiny_backbone) == 0
    return run


def records(run: Path) -> list[dict[str, object]]:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    for row in rows:
        row.pop("tokens_per_second", None)
    return rows


def assert_same(run: Path, unbroken: Path) -> None:
    ours, theirs = (load_file(folder / "adapter.safetensors") for folder in (run, unbroken))
    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)
    assert records(run) == records(unbroken)
    assert scores(run) == scores(unbroken)


def scores(run: Path) -> dict[str, dict[str, float]]:
    return json.loads((run / "planner.json").read_text())["scores"]


def test_unbroken_run_has_every_step_once(unbroken: Path) -> None:
    steps = [row["step"] for row in records(unbroken) if "loss" in row]
    assert steps == list(range(1, len(steps) + 1))
    assert {row["stage"] for row in records(unbroken)} == {"grounding", "edges", "sft", "distill"}
    assert {path.stem for path in (unbroken / "reports").iterdir()} == {
        "edges",
        "edges_before",
        "teacher",
    }


def test_the_card_tells_the_best_validation_scores(unbroken: Path) -> None:
    validations = [row["validation"] for row in records(unbroken) if "validation" in row]
    assert len(validations) > 2
    best = max(validations, key=lambda found: found["em"])  # the first of several
    assert scores(unbroken) == {"validation": {**best, "rows": 4}}


def test_killed_again_and_again(
    unbroken: Path, tmp_path: Path, tiny_data: Path, tiny_backbone: Path
) -> None:
    run = tmp_path / "run"
    kills = [("record", 3), ("rename", 4), ("record", 9), ("rename", 9), ("ask", 5), ("record", 6)]
    codes = [run_once(run, tiny_data, tiny_backbone, *kill) for kill in kills]
    assert codes.count(-signal.SIGKILL) == 5
    assert 130 in codes
    assert not (run / "planner.json").exists()
    assert run_once(run, tiny_data, tiny_backbone) == 0
    assert_same(run, unbroken)


def test_an_ended_run_is_left_alone(unbroken: Path, tiny_data: Path, tiny_backbone: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in unbroken.iterdir() if path.is_file()}
    assert run_once(unbroken, tiny_data, tiny_backbone) == 0
    assert before == {
        path: path.stat().st_mtime_ns for path in unbroken.iterdir() if path.is_file()
    }
