"""Every setting, as frozen dataclasses; loads configs/*.py and takes typed command-line overrides.

`python launch/train.py --config configs/smollm2_135m.py --sft.epochs 2` starts from the file's
`config` and replaces single fields. Settings go down as numbers: no function below training gets
a config.
"""

import dataclasses
import importlib.util
import json
import sys
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal

import tyro

from graft_jax.errors import GraftError
from graft_jax.shapes import misfit


@dataclasses.dataclass(frozen=True)
class Optimizer:
    """AdamW with linear warm-up and cosine decay to `final_share` of the peak rates."""

    lora_rate: float = 1e-3
    rows_rate: float = 1e-3  # tool rows and edge projections
    warmup_steps: int = 20
    final_share: float = 0.05
    clip: float = 1.0  # global gradient norm
    weight_decay: float = 0.0


@dataclasses.dataclass(frozen=True)
class Lora:
    """Adapted maps are y = x W + (alpha / rank) x A B."""

    rank: int = 16
    alpha: float = 32.0
    targets: tuple[str, ...] = ("q", "k", "v", "o", "gate", "up", "down")


@dataclasses.dataclass(frozen=True)
class Grounding:
    """Stage 1: subtask -> tool token (Eq. 5)."""

    enabled: bool = True
    epochs: float = 0.5  # over subtask pairs
    batch_size: int = 32
    restricted: bool = False  # loss over tools and end alone instead of the full vocabulary
    optimizer: Optimizer = Optimizer()


@dataclasses.dataclass(frozen=True)
class Edges:
    """Stage 2: contrastive reconstruction of the tool graph (Eqs. 6-8)."""

    enabled: bool = True
    steps: int = 150
    batch_size: int = 64  # sampled paths
    negatives: int = 10  # a positive edge
    temperature: float = 0.1  # gamma of Eq. 7
    projection: int = 256  # P
    hold_out: float = 0.05  # share of edges kept out of paths and loss, to be recovered
    optimizer: Optimizer = Optimizer(lora_rate=3e-4, rows_rate=3e-4)


@dataclasses.dataclass(frozen=True)
class Sft:
    """Stage 3: query -> plan (Eq. 9)."""

    enabled: bool = True
    epochs: float = 3.0
    batch_size: int = 16
    teacher_share: float = 0.15  # examples that carry the teacher's prompt; 0 is the paper's form
    word_dropout: float = 0.0  # share of a student's request, drawn anew each epoch
    restricted: bool = False
    optimizer: Optimizer = Optimizer()


@dataclasses.dataclass(frozen=True)
class Distill:
    """Stage 4: on-policy tool context distillation (Eqs. 10-13)."""

    enabled: bool = True
    epochs: float = 1.0
    batch_size: int = 16
    weight: float = 0.7  # lambda of Eq. 13
    rollouts: int = 1  # sampled plans a query
    temperature: float = 1.0  # of the sampling
    word_dropout: float = 0.0  # share of a student's request that it samples from
    optimizer: Optimizer = Optimizer(lora_rate=3e-4, rows_rate=3e-4)


@dataclasses.dataclass(frozen=True)
class Validation:
    """Greedy plans (any tool or end) on the first `rows` of the validation split."""

    every: int = 100  # steps of SFT and distillation
    rows: int = 250


@dataclasses.dataclass(frozen=True)
class Checkpoints:
    """When to save, and how many to keep."""

    every: int = 50
    keep: int = 2


@dataclasses.dataclass(frozen=True)
class Mesh:
    """Devices along each axis; -1 takes what is left."""

    data: int = -1
    fsdp: int = 1
    tensor: int = 1


@dataclasses.dataclass(frozen=True)
class Config:
    """One training run."""

    run: str  # folder of the run; becomes the planner folder
    data: str  # folder with catalog.json and train|validation|test.jsonl
    backbone: str  # folder with a Hugging Face checkpoint
    seed: int = 0
    dtype: Literal["bfloat16", "float32"] = "bfloat16"  # of base and products
    positions_at_once: int = 1024  # a device; larger batches in parts, their gradients added up
    start_from: str = ""  # a planner folder whose adapter to continue from
    train_on_validation: bool = False  # a final run, settings fixed before
    max_query_tokens: int = 256  # longer requests are cut: first three quarters, last quarter
    lora: Lora = Lora()
    grounding: Grounding = Grounding()
    edges: Edges = Edges()
    sft: Sft = Sft()
    distill: Distill = Distill()
    validation: Validation = Validation()
    checkpoints: Checkpoints = Checkpoints()
    mesh: Mesh = Mesh()


# The numbers that can be meant, ends included.
_COUNT = (1, 2**31 - 1)
_EPOCHS = (1e-6, 1e6)
_RATE = (0, 100)
_STAGES = ("grounding", "edges", "sft", "distill")
_OPTIMIZER: dict[str, tuple[float, float]] = {
    "lora_rate": _RATE,
    "rows_rate": _RATE,
    "warmup_steps": (0, 2**31 - 1),
    "final_share": (0, 1),
    "clip": (1e-6, 1e12),
    "weight_decay": _RATE,
}
_RANGES: dict[str, tuple[float, float]] = {
    "seed": (0, 2**32 - 1),
    "positions_at_once": _COUNT,
    # The largest prompt has 8192 positions; the frame and a teacher's solution need room as well.
    "max_query_tokens": (8, 4096),
    "lora.rank": _COUNT,
    "lora.alpha": (1e-6, 1e6),
    "grounding.epochs": _EPOCHS,
    "edges.steps": _COUNT,
    "edges.negatives": _COUNT,
    "edges.temperature": (1e-4, 1e4),
    "edges.projection": _COUNT,
    "edges.hold_out": (0, 0.99),
    "sft.epochs": _EPOCHS,
    "sft.teacher_share": (0, 0.99),
    "sft.word_dropout": (0, 0.99),
    "distill.epochs": _EPOCHS,
    "distill.weight": (0, 1e6),
    "distill.rollouts": _COUNT,
    "distill.temperature": (1e-4, 1e4),
    "distill.word_dropout": (0, 0.99),
    "validation.every": _COUNT,
    "validation.rows": _COUNT,
    "checkpoints.every": _COUNT,
    "checkpoints.keep": _COUNT,
    **{f"{stage}.batch_size": _COUNT for stage in _STAGES},
    **{f"{stage}.optimizer.{name}": ends for stage in _STAGES for name, ends in _OPTIMIZER.items()},
}


def to_json(config: Config) -> dict[str, Any]:
    """The config as plain values, for storing beside results."""
    return json.loads(json.dumps(dataclasses.asdict(config)))


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Reads the `config` of a Python file and applies overrides such as `--sft.epochs 2`.

    Raises:
      GraftError: the file is missing, fails, or holds no `Config` named `config`; a setting cannot
        be meant. Unknown flags and values of a wrong type end the process with a usage message and
        exit code 2.
    """
    path = Path(path)
    if not path.is_file():
        raise GraftError(f"{path}: no such config file; see configs/ for those that exist")
    spec = importlib.util.spec_from_file_location(f"graft_config_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise GraftError(f"{path}: not a Python file; a config is a .py file that sets `config`")
    module = importlib.util.module_from_spec(spec)
    places = list(sys.path)
    sys.path.insert(0, str(path.parent))  # a config may start from another one beside it
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # it is a program: it may fail in any way
        raise GraftError(f"{path}: {type(error).__name__}: {error}; mend the file") from error
    finally:
        sys.path[:] = places
    config = getattr(module, "config", None)
    if not isinstance(config, Config):
        raise GraftError(f"{path}: sets no `config = Config(...)` from graft_jax.config")
    _check_kinds(config, f"{path}: ")
    return check(tyro.cli(Config, default=config, args=list(overrides), prog=f"train {path}"))


def check(config: Config) -> Config:
    """The config, if every setting is of its kind and can be meant.

    Raises:
      GraftError: one is not; names its flag, its value and what it may be.
    """
    _check_kinds(config)
    for path in ("run", "data", "backbone"):
        if not attrgetter(path)(config).strip():
            raise GraftError(f"{_flag(path)}: is empty; give a folder")
    for path, (low, high) in _RANGES.items():
        value = attrgetter(path)(config)
        if not low <= value <= high:
            raise GraftError(f"{_flag(path)}: is {value}; it must be from {low} to {high}")
    targets = config.lora.targets
    if not targets or not set(targets) <= set(Lora().targets):
        raise GraftError(
            f"--lora.targets: is {' '.join(targets) or 'empty'}; it must name some of "
            f"{', '.join(Lora().targets)}"
        )
    return config


def _check_kinds(config: Config, where: str = "") -> None:
    if odd := misfit(config, Config):
        flag = _flag(".".join(odd.path))
        raise GraftError(f"{where}{flag}: is {odd.said}; it must be {odd.wanted}")


def _flag(path: str) -> str:
    return f"--{path.replace('_', '-')}"
