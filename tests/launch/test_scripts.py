"""What a newcomer types: train, evaluate, plan, export, and the mistakes made on the way."""

import dataclasses
import io
import json
import os
import pty
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.training.run_once import tiny_config

ROOT = Path(__file__).parents[2]
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """(script, arguments, standard input) -> (exit code, output, errors), in this process."""
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "")

    def call(script: str, *arguments: object, stdin: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", [script, *map(str, arguments)])
        text = io.TextIOWrapper(io.BytesIO(stdin), "ascii", "strict")
        monkeypatch.setattr(sys, "stdin", text)
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

    # What cannot be written is said before anything is planned.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("graft_jax.evaluation.evaluate.plan", None)
        command = ("evaluate.py", "--planner", planner, "--split", "validation")
        code, _, err = run(*command, "--store", tmp_path)
        assert (code, err.startswith(f"error: {tmp_path}: is a folder")) == (2, True)
        (planner / "pictures").rename(planner / "moved")
        (planner / "pictures").touch()
        code, _, err = run(*command)
        assert (code, err.startswith(f"error: {planner / 'pictures'}: File exists")) == (2, True)

    code, out, _ = run("plan.py", "--planner", planner, "find a train", "--json", "--n-best", 2)
    assert code == 0
    assert [json.loads(line)["query"] for line in out.splitlines()] == ["find a train"] * 2
    code, out, _ = run("plan.py", "--planner", planner, stdin=b"find a train\n\nsend a message\n")
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
        ("results.py", ["--paired", "one.json"], "two score files"),
    ],
)
def test_mistakes_end_with_2_and_say_how_to_mend(
    run: Run, script: str, arguments: list[str], message: str
) -> None:
    code, _, err = run(script, *arguments)
    assert code == 2
    assert message in err
    assert "Traceback" not in err


def test_a_file_in_the_place_of_the_run_folder_is_said(run: Run, config: Path) -> None:
    for run_folder in (config, config / "below"):
        code, _, err = run("train.py", "--config", config, "--run", run_folder)
        assert code == 2
        assert err.startswith(f"error: {config}")
        assert "check path, space and rights" in err


@dataclasses.dataclass
class FakePlan:
    query: str
    tools: tuple[str, ...] = ()
    steps: tuple[()] = ()

    def __str__(self) -> str:
        return "->".join(self.tools)

    def to_json(self) -> dict[str, object]:
        return dataclasses.asdict(self)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What plan.py asks a planner for; each plan is the tools that were denied."""
    calls: list[dict[str, Any]] = []

    def plan(_: object, queries: list[str], **options: Any) -> list[FakePlan]:
        calls.append({"queries": queries, **options})
        return [FakePlan(query.upper(), tuple(options["deny"])) for query in queries]

    monkeypatch.setattr("graft_jax.load", lambda *_: None, raising=False)
    monkeypatch.setattr("graft_jax.plan", plan, raising=False)
    return calls


def test_tools_to_allow_or_deny_do_not_swallow_the_request(
    run: Run, asked: list[dict[str, Any]]
) -> None:
    tools = ("--deny", "a, b", "--allow", "c", "--deny", "d")
    code, out, _ = run("plan.py", "--planner", "x", *tools, "my request")
    assert (code, out) == (0, "a, b->d\n")
    assert asked[0]["queries"] == ["my request"]
    assert (asked[0]["allow"], asked[0]["deny"]) == (["c"], ["a, b", "d"])
    run("plan.py", "first", "--planner", "x", "--json", "second")
    assert asked[1]["queries"] == ["first", "second"]
    assert (asked[1]["allow"], asked[1]["deny"]) == (None, [])


def test_standard_input_is_utf8_whatever_it_is(run: Run, asked: list[dict[str, Any]]) -> None:
    said = "\ufeffplan é\n \n".encode() + b"b\xff\n"
    code, out, err = run("plan.py", "--planner", "x", stdin=said)
    assert (code, err) == (0, "")
    assert asked[0]["queries"] == ["plan é", "b\ufffd"]
    assert out == "PLAN É\n\nB\ufffd\n\n"  # the plan's own query


def test_a_terminal_is_told_that_it_is_read() -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, ROOT / "launch" / "plan.py", "--planner", "nowhere"]
    process = subprocess.Popen(command, stdin=theirs, stderr=subprocess.PIPE)
    os.write(ours, b"\x04")  # end of input
    _, err = process.communicate()
    for end in (ours, theirs):
        os.close(end)
    assert process.returncode == 2
    assert err.startswith(b"reading requests from standard input, one a line\nerror: no request")


@pytest.mark.parametrize("script", sorted(p.name for p in (ROOT / "launch").glob("[a-z]*.py")))
def test_every_script_has_help_everywhere(
    run: Run, script: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, _ = run(script, "--help")
    assert code == 0
    assert "usage" in out.lower()
