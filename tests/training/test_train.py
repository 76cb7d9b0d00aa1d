"""Training from the outside: stages alone, seeds, what is refused, what diverges."""

import contextlib
import dataclasses
import io
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from rich.console import Console
from safetensors.numpy import load_file

import graft_jax
from graft_jax.config import Config, Distill, Edges, Grounding, Lora, Mesh, Optimizer, Sft
from graft_jax.errors import GraftError
from graft_jax.training.train import train
from tests.training.run_once import tiny_config


def only(stage: str, config: Config) -> Config:
    others = {"grounding", "edges", "sft", "distill"} - {stage}
    off = {name: dataclasses.replace(getattr(config, name), enabled=False) for name in others}
    return dataclasses.replace(config, **off)


@pytest.fixture
def make(tmp_path: Path, tiny_data: Path, tiny_backbone: Path) -> Any:
    def config(name: str = "run", **changes: Any) -> Config:
        places = {"run": tmp_path / name, "data": tiny_data, "backbone": tiny_backbone}
        return tiny_config(**({key: str(path) for key, path in places.items()} | changes))

    return config


def quiet(config: Config) -> Path:
    return train(config, Console(file=io.StringIO()))


@pytest.mark.parametrize("stage", ["grounding", "edges", "sft"])
def test_a_stage_runs_alone(make: Any, stage: str) -> None:
    run = quiet(only(stage, make()))
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert {row["stage"] for row in rows} == {stage}
    losses = [row["loss"] for row in rows if "loss" in row]
    assert min(losses[1:]) < losses[0]
    assert graft_jax.plan(graft_jax.load(run), "find a train").tools


def test_distillation_alone_starts_from_a_planner(make: Any) -> None:
    first = quiet(only("sft", make("first")))
    second = quiet(dataclasses.replace(only("distill", make("second")), start_from=str(first)))
    report = json.loads((second / "reports" / "teacher.json").read_text())
    assert {"query_only", "with_context", "on_rollouts"} <= report.keys()
    for lora in (Lora(rank=3, alpha=6.0), Lora(rank=2, alpha=600.0)):
        with pytest.raises(GraftError, match="another LoRA"):
            quiet(make("third", start_from=str(first), lora=lora))


def test_the_seed_decides(make: Any) -> None:
    weights = [
        load_file(quiet(only("edges", make(name, seed=seed))) / "adapter.safetensors")
        for name, seed in (("a", 0), ("b", 0), ("c", 1))
    ]
    same = [np.array_equal(weights[0][k], weights[1][k]) for k in weights[0]]
    other = [np.array_equal(weights[0][k], weights[2][k]) for k in weights[0]]
    assert all(same)
    assert not all(other)


def test_devices_do_not_change_the_losses(make: Any) -> None:
    def losses(config: Config) -> list[float]:
        lines = (quiet(config) / "metrics.jsonl").read_text().splitlines()
        return [json.loads(line)["loss"] for line in lines if "loss" in json.loads(line)]

    assert jax.device_count() == 4
    short = {
        "grounding": Grounding(enabled=False),
        "edges": Edges(steps=1, batch_size=8, projection=8),
        "sft": Sft(epochs=0.3, batch_size=8),
        "distill": Distill(epochs=0.3, batch_size=8),
    }
    one = losses(make("one", **short))
    split = losses(make("split", mesh=Mesh(data=2, fsdp=1, tensor=2), **short))
    np.testing.assert_allclose(one, split, rtol=1e-4)


def test_a_loss_that_is_no_number_stops_the_run(make: Any) -> None:
    config = only("sft", make(sft=Sft(optimizer=Optimizer(lora_rate=1e30, rows_rate=1e30))))
    with pytest.raises(GraftError, match=r"sft: the (loss|grad_norm) of step \d+ is"):
        quiet(config)


def test_another_run_in_the_folder_is_refused(make: Any) -> None:
    quiet(only("sft", make()))
    with pytest.raises(GraftError, match="another seed"):
        quiet(only("sft", make(seed=5)))


def test_a_run_that_ended_while_this_one_waited_is_left_alone(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from graft_jax.training import train as module

    config, held = only("grounding", make()), module.locked

    @contextlib.contextmanager
    def after_another(folder: Path) -> Iterator[None]:
        monkeypatch.undo()
        quiet(config)
        with held(folder):
            yield

    monkeypatch.setattr(module, "locked", after_another)
    assert graft_jax.plan(graft_jax.load(quiet(config)), "find a train").tools


def test_settings_may_not_change_midway(
    make: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from graft_jax.training import train as module

    def fail(*_: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(module, "save_planner", fail)
    with pytest.raises(OSError, match="disk full"):
        quiet(only("sft", make()))
    monkeypatch.undo()
    with pytest.raises(GraftError, match=r"sft\.epochs"):
        quiet(only("sft", make(sft=Sft(epochs=3, batch_size=8))))
    assert quiet(only("sft", make())) == tmp_path / "run"


def test_missing_pieces_are_named(make: Any, tmp_path: Path, tiny_data: Path) -> None:
    with pytest.raises(GraftError, match="no such folder"):
        quiet(make(backbone=str(tmp_path / "nowhere")))
    with pytest.raises(GraftError, match=r"catalog\.json"):
        quiet(make(data=str(tmp_path / "nowhere")))
    with pytest.raises(GraftError, match="every stage is switched off"):
        quiet(only("none", make()))
    bare = tmp_path / "bare"
    shutil.copytree(tiny_data, bare)
    for split in ("train", "validation", "test"):
        lines = [json.loads(line) for line in (bare / f"{split}.jsonl").read_text().splitlines()]
        text = "".join(json.dumps(line | {"subtasks": []}) + "\n" for line in lines)
        (bare / f"{split}.jsonl").write_text(text)
    with pytest.raises(GraftError, match="grounding"):
        quiet(make(data=str(bare)))
    assert quiet(only("edges", make(data=str(bare))))
