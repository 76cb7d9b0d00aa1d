"""Planner folders of any number of tools over a tiny backbone, made on the spot."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import tiny

from graft_jax.catalog.catalog import Catalog, Tool
from graft_jax.catalog.graph import capacity
from graft_jax.data.prompts import templates
from graft_jax.io.planner_folder import save_planner
from graft_jax.models.lora import TARGETS

KINDS: dict[str, dict[str, Any]] = {
    "llama, tied": {},
    "llama, untied": {"tied": False},
    "mistral, untied": {"family": "mistral", "tied": False},
    "qwen2, tied": {"family": "qwen2", "qkv_bias": True},
    "qwen2, untied": {"family": "qwen2", "qkv_bias": True, "tied": False},
    "qwen3, tied": {"family": "qwen3", "qk_norm": True},
}
_ODD_NAMES = ("calendar.read", "user-profile/update", "search-a", "search_a", "👋 Demo", "s", "S")


def write_planner(folder: Path, kind: str, tools: int) -> Path:
    """`folder`/backbone and `folder`/planner, the planner's path returned."""
    spec = tiny.make_spec(**KINDS[kind])
    backbone = tiny.write_backbone(folder / "backbone", spec)
    names = [*_ODD_NAMES, *(f"tool_{i}" for i in range(tools - len(_ODD_NAMES)))]
    catalog = Catalog(
        tuple(Tool(name, f"What {name} is for") for name in names),
        tuple(pairwise(names)),
    )
    rows, rank, alpha = capacity(tools), 4, 12.0
    card = {
        "config": {"dtype": "float32", "data": "data/made", "train_on_validation": False},
        "data_hash": "0",
        "prompts": templates(),
        "max_query_tokens": 256,
        "longest_plan": 3,
        "capacity": rows,
        "lora": {"rank": rank, "alpha": alpha, "targets": list(TARGETS)},
    }
    adapter = tiny.make_adapter(spec, rows, rank, alpha)
    save_planner(folder / "planner", adapter, catalog, backbone, card)
    return folder / "planner"
