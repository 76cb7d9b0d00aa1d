"""Configs: files, typed overrides, and numbers that cannot be meant."""

from pathlib import Path

import pytest

from graft_jax.config import Config, load_config, to_json
from graft_jax.errors import GraftError

CONFIGS = Path(__file__).parent.parent / "configs"
GOOD = "from graft_jax.config import Config\nconfig = Config(run='r', data='d', backbone='b')\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "good.py"
    file.write_text(GOOD)
    return file


@pytest.mark.parametrize("file", sorted(CONFIGS.glob("*.py")), ids=lambda file: file.stem)
def test_every_config_of_the_project_loads(file: Path) -> None:
    assert isinstance(load_config(file), Config)


def test_overrides_are_typed(path: Path) -> None:
    config = load_config(
        path,
        [
            "--sft.epochs",
            "2",
            "--edges.no-enabled",
            "--lora.targets",
            "q",
            "v",
            "--dtype",
            "float32",
        ],
    )
    assert config.sft.epochs == 2.0
    assert not config.edges.enabled
    assert config.lora.targets == ("q", "v")
    assert config.dtype == "float32"
    assert to_json(config) != to_json(load_config(path))
    assert to_json(config)["lora"]["targets"] == ["q", "v"]


@pytest.mark.parametrize(
    "flags", [["--sft.epoch", "2"], ["--sft.batch-size", "many"], ["--dtype", "int3"]]
)
def test_wrong_flags_exit_with_2(path: Path, flags: list[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        load_config(path, flags)
    assert stop.value.code == 2


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--sft.epochs", "0"], "--sft.epochs"),
        (["--sft.batch-size", "-1"], "--sft.batch-size"),
        (["--edges.hold-out", "1"], "--edges.hold-out"),
        (["--sft.teacher-share", "-0.1"], "--sft.teacher-share"),
        (["--distill.weight", "-1"], "--distill.weight"),
        (["--edges.temperature", "0"], "--edges.temperature"),
        (["--lora.rank", "0"], "--lora.rank"),
    ],
)
def test_numbers_that_cannot_be_meant_are_refused(path: Path, flags: list[str], named: str) -> None:
    with pytest.raises(GraftError, match=named):
        load_config(path, flags)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("config = 5\n", "sets no"),
        ("config = (\n", "SyntaxError"),
        ("from graft_jax.config import Config\nconfig = Config()\n", "TypeError"),
        ("import no_such_module\n", "no_such_module"),
    ],
)
def test_bad_files_are_named(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "bad.py"
    file.write_text(text)
    with pytest.raises(GraftError, match=message) as caught:
        load_config(file)
    assert "bad.py" in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(GraftError, match="no such config file"):
        load_config(tmp_path / "none.py")
