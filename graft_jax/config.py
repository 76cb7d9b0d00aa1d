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
from pathlib import Path
from typing import Any, Literal

import tyro

from graft_jax.errors import GraftError


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
    optimizer: Optimizer = Optimizer(lora_rate=3e-4, rows_rate=3e-4)


@dataclasses.dataclass(frozen=True)
class Validation:
    """Greedy plans (any tool or end) on the first `rows` of the validation split."""

    every: int = 100  # steps of SFT and distillation
    rows: int = 250
    batch_size: int = 32


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
    positions_at_once: int = 1536  # a device; larger batches in parts, their gradients added up
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


def to_json(config: Config) -> dict[str, Any]:
    """The config as plain values, for storing beside results."""
    return json.loads(json.dumps(dataclasses.asdict(config)))


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Reads the `config` of a Python file and applies overrides such as `--sft.epochs 2`.

    Raises:
      GraftError: the file is missing or holds no `Config` named `config`. Unknown flags and values
        of a wrong type end the process with a usage message and exit code 2.
    """
    path = Path(path)
    if not path.is_file():
        raise GraftError(f"{path}: no such config file; see configs/ for those that exist")
    spec = importlib.util.spec_from_file_location(f"graft_config_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise GraftError(f"{path}: not a Python file; a config is a .py file that sets `config`")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))  # a config may start from another one beside it
    try:
        spec.loader.exec_module(module)
    except (SyntaxError, NameError, TypeError, ImportError) as error:
        raise GraftError(f"{path}: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(str(path.parent))
    config = getattr(module, "config", None)
    if not isinstance(config, Config):
        raise GraftError(f"{path}: sets no `config = Config(...)` from graft_jax.config")
    return check(tyro.cli(Config, default=config, args=list(overrides), prog=f"train {path}"))


def check(config: Config) -> Config:
    """Refuses numbers that cannot be meant, by the flag's name."""
    positive = {
        "--lora.rank": config.lora.rank,
        "--lora.alpha": config.lora.alpha,
        "--max-query-tokens": config.max_query_tokens - 7,
        "--positions-at-once": config.positions_at_once,
        "--validation.every": config.validation.every,
        "--validation.rows": config.validation.rows,
        "--validation.batch-size": config.validation.batch_size,
        "--checkpoints.every": config.checkpoints.every,
        "--checkpoints.keep": config.checkpoints.keep,
        "--edges.temperature": config.edges.temperature,
        "--edges.negatives": config.edges.negatives,
        "--edges.projection": config.edges.projection,
        "--distill.rollouts": config.distill.rollouts,
        "--distill.temperature": config.distill.temperature,
        "--grounding.epochs": config.grounding.epochs,
        "--edges.steps": config.edges.steps,
        "--sft.epochs": config.sft.epochs,
        "--distill.epochs": config.distill.epochs,
    }
    for stage in ("grounding", "edges", "sft", "distill"):
        positive[f"--{stage}.batch-size"] = getattr(config, stage).batch_size
    for flag, value in positive.items():
        if not value > 0:
            raise GraftError(f"{flag}: too small; give a larger number")
    for flag, share in (
        ("--edges.hold-out", config.edges.hold_out),
        ("--sft.teacher-share", config.sft.teacher_share),
    ):
        if not 0 <= share < 1:
            raise GraftError(f"{flag}: {share} is not a share from 0 to below 1")
    if config.distill.weight < 0:
        raise GraftError(f"--distill.weight: {config.distill.weight} is negative")
    return config
