"""What a newcomer types: train, evaluate, plan, export, and the mistakes made on the way."""

import dataclasses
import io
import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.training.run_once import tiny_config

ROOT = Path(__file__).parents[2]
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """(script, arguments, standard input) -> (exit code, output, errors), in this process."""
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "")

    def call(script: str, *arguments: object, stdin: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", [script, *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        with pytest.raises(SystemExit) as stop:
            runpy.run_path(str(ROOT / "launch" / script), run_name="__main__")
        out, err = capsys.readouterr()
        code = stop.value.code
        return (code if isinstance(code, int) else int(code is not None)), out, err

    return call


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory, tiny_data: Path, tiny_backbone: Path) -> Path:
    """A config file of a run with two stages, as a user would write it."""
    folder = tmp_path_factory.mktemp("user")
    made = tiny_config(str(folder / "run"), str(tiny_data), str(tiny_backbone))
    off = {
        name: dataclasses.replace(getattr(made, name), enabled=False)
        for name in ("grounding", "distill")
    }
    made = dataclasses.replace(made, **off)
    path = folder / "mine.py"
    path.write_text(f"from graft_jax.config import *\nconfig = {made!r}\n")
    return path


def test_from_training_to_export(run: Run, config: Path, tmp_path: Path) -> None:
    planner = config.parent / "run"
    code, out, _ = run("train.py", "--config", config)
    assert code == 0
    assert "the planner is written" in out
    assert "has ended" in run("train.py", "--config", config)[1]

    for constrain in ("graph", "tools", "off"):
        stored = tmp_path / f"{constrain}.json"
        code, out, _ = run(
            "evaluate.py", "--planner", planner, "--split", "validation",
            "--constrain", constrain, "--single", 1, "--store", stored,
        )  # fmt: skip
        assert code == 0
        assert "kNN" in out
        assert json.loads(stored.read_text())["slim"]
    assert "## Scores" in (planner / "report.md").read_text()
    kept = json.loads((planner / "scores" / "validation-graph.json").read_text())
    assert kept["scores"]["all"]["metrics"]["elr"]["value"] in (1.0, None)
    assert run("results.py", *tmp_path.glob("*.json"))[0] == 0

    code, out, _ = run("plan.py", "--planner", planner, "find a train", "--json", "--n-best", 2)
    assert code == 0
    assert [json.loads(line)["query"] for line in out.splitlines()] == ["find a train"] * 2
    code, out, _ = run("plan.py", "--planner", planner, stdin="find a train\n\nsend a message\n")
    assert code == 0
    assert out.count("probability") == 2

    code, _, _ = run("export.py", "--planner", planner, "--to", "hf", "--out", tmp_path / "hf")
    assert code == 0
    assert (tmp_path / "hf" / "graft.json").is_file()
    code, _, err = run("export.py", "--planner", planner, "--to", "hf", "--out", tmp_path / "hf")
    assert code == 2
    assert "hf" in err


@pytest.mark.parametrize(
    ("script", "arguments", "message"),
    [
        ("train.py", [], "--config is missing"),
        ("train.py", ["--config", "nowhere.py"], "no such config file"),
        ("plan.py", ["--planner", "nowhere", "hello"], "is no planner folder"),
        ("plan.py", ["--planner", "nowhere"], "no request"),
        ("plan.py", ["--planner", "nowhere", "x", "--constrain", "maybe"], "invalid choice"),
        ("plan.py", ["x"], "--planner"),
        ("evaluate.py", ["--planner", "nowhere"], "is no planner folder"),
        ("evaluate.py", ["--planner", "nowhere", "--split", "exam"], "'exam' is not one of"),
        ("export.py", ["--planner", "nowhere", "--to", "hf", "--out", "x"], "is no planner folder"),
        ("results.py", ["nowhere.json"], "nowhere.json"),
    ],
)
def test_mistakes_end_with_2_and_say_how_to_mend(
    run: Run, script: str, arguments: list[str], message: str
) -> None:
    code, _, err = run(script, *arguments)
    assert code == 2
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize("script", sorted(p.name for p in (ROOT / "launch").glob("[a-z]*.py")))
def test_every_script_has_help(run: Run, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    code, out, _ = run(script, "--help")
    assert code == 0
    assert "usage" in out.lower()
