"""Configs: files, typed overrides, and numbers that cannot be meant."""

import re
import sys
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
    "flags",
    [
        "--seed -1",
        "--seed 4294967296",
        "--seed 1180591620717411303424",
        "--positions-at-once 0",
        "--max-query-tokens 7",
        "--max-query-tokens 9000",
        "--lora.rank 0",
        "--lora.alpha inf",
        "--lora.alpha 0",
        "--grounding.epochs nan",
        "--sft.epochs 0",
        "--sft.epochs inf",
        "--distill.epochs 1e300",
        "--edges.steps 1000000000000",
        "--sft.batch-size -1",
        "--edges.hold-out 1",
        "--edges.temperature 0",
        "--edges.temperature inf",
        "--sft.teacher-share -0.1",
        "--distill.weight -1",
        "--distill.weight nan",
        "--validation.rows 0",
        "--checkpoints.keep 0",
        "--sft.optimizer.lora-rate nan",
        "--sft.optimizer.lora-rate -1",
        "--distill.optimizer.rows-rate inf",
        "--edges.optimizer.warmup-steps -5",
        "--grounding.optimizer.clip 0",
        "--sft.optimizer.clip -1",
        "--sft.optimizer.final-share 5",
        "--sft.optimizer.weight-decay inf",
        "--sft.optimizer.weight-decay -1",
        "--lora.targets q x",
    ],
)
def test_what_cannot_be_meant_is_refused_by_flag_value_and_bound(path: Path, flags: str) -> None:
    flag, *values = flags.split()
    with pytest.raises(GraftError) as caught:
        load_config(path, [flag, *values])
    said = re.fullmatch(r"(\S+): is (.+); it must (.+)", str(caught.value))
    assert said is not None
    assert said[1] == flag
    assert said[2] == " ".join(values) or float(said[2]) == pytest.approx(
        float(values[0]), nan_ok=True
    )


def test_targets_must_be_some(path: Path) -> None:
    with pytest.raises(GraftError, match=r"--lora\.targets: is empty; it must name some of q, k"):
        load_config(path, ["--lora.targets"])


@pytest.mark.parametrize("flag", ["--run", "--data", "--backbone"])
def test_a_folder_without_a_name_is_refused(path: Path, flag: str) -> None:
    with pytest.raises(GraftError, match=f"{flag}: is empty"):
        load_config(path, [flag, " "])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("run=5", "--run: is 5; it must be a text"),
        ("run=Path('r')", "--run: is PosixPath('r'); it must be a text"),
        ("sft=None", "--sft: is None; it must be a Sft(...)"),
        ("sft=Edges()", "it must be a Sft(...)"),
        ("seed='zero'", "--seed: is 'zero'; it must be a whole number"),
        ("seed=True", "--seed: is True; it must be a whole number"),
        ("dtype='float16'", "--dtype: is 'float16'; it must be one of 'bfloat16', 'float32'"),
        ("train_on_validation=1", "--train-on-validation: is 1; it must be true or false"),
        ("lora=Lora(targets=['q'])", "--lora.targets: is ['q']; it must be a tuple"),
        ("lora=Lora(targets=('q', 1))", "--lora.targets.1: is 1; it must be a text"),
        ("sft=Sft(epochs='2')", "--sft.epochs: is '2'; it must be a finite number"),
        ("sft=Sft(optimizer=Optimizer(clip=None))", "--sft.optimizer.clip: is None; it must be"),
    ],
)
def test_settings_of_a_wrong_kind_are_refused_by_file_and_flag(
    tmp_path: Path, settings: str, message: str
) -> None:
    file = tmp_path / "bad.py"
    file.write_text(
        "from pathlib import Path\nfrom graft_jax.config import *\n"
        f"config = Config(**{{'run': 'r', 'data': 'd', 'backbone': 'b'}} | dict({settings}))\n"
    )
    with pytest.raises(GraftError) as caught:
        load_config(file)
    assert str(caught.value).startswith(f"{file}: --")
    assert message in str(caught.value)


def test_a_whole_number_serves_where_any_number_does(tmp_path: Path) -> None:
    file = tmp_path / "whole.py"
    file.write_text(GOOD.replace("run=", "sft=Sft(epochs=2), run=").replace("Config\n", "*\n", 1))
    assert load_config(file).sft.epochs == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("config = 5\n", "sets no"),
        ("config = (\n", "SyntaxError"),
        ("from graft_jax.config import Config\nconfig = Config()\n", "TypeError"),
        ("import no_such_module\n", "no_such_module"),
        ("1 / 0\n", "ZeroDivisionError"),
        ("{}['a']\n", "KeyError"),
        ("''.a\n", "AttributeError"),
        ("int('a')\n", "ValueError"),
        ("open('nowhere')\n", "nowhere"),
        ("raise SystemExit(0)\n", "SystemExit"),
        ("import sys; sys.path.clear(); 1 / 0\n", "ZeroDivisionError"),
        ("a = '\0'\n", "null bytes"),
    ],
)
def test_bad_files_are_named(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "bad.py"
    file.write_text(text)
    before = list(sys.path)
    with pytest.raises(GraftError, match=message) as caught:
        load_config(file)
    assert "bad.py" in str(caught.value)
    assert sys.path == before


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(GraftError, match="no such config file"):
        load_config(tmp_path / "none.py")
