"""Optimisers: AdamW with a rate for LoRA and one for tool rows and projections."""

import dataclasses
from typing import Any

import jax
import optax

from graft_jax.models.adapter import Adapter


def schedule(peak: float, steps: int, warmup: int, final_share: float) -> optax.Schedule:
    """Linear warm-up to `peak`, cosine decay to `final_share` of it at step `steps`."""
    warmup = min(warmup, max(steps // 10, 1))
    return optax.warmup_cosine_decay_schedule(
        init_value=peak / (warmup + 1),
        peak_value=peak,
        warmup_steps=warmup,
        decay_steps=max(steps, warmup + 1),
        end_value=peak * final_share,
    )


def make_optimizer(
    steps: int,
    lora_rate: float,
    rows_rate: float,
    warmup_steps: int,
    final_share: float,
    clip: float,
    weight_decay: float,
) -> optax.GradientTransformation:
    """The optimiser of one stage of `steps` steps; `clip` bounds the global gradient norm."""

    def adamw(rate: float) -> optax.GradientTransformation:
        return optax.adamw(
            schedule(rate, steps, warmup_steps, final_share), weight_decay=weight_decay
        )

    return optax.chain(
        optax.clip_by_global_norm(clip),
        optax.partition({"lora": adamw(lora_rate), "rows": adamw(rows_rate)}, _labels),
    )


def _labels(adapter: Adapter) -> Any:
    return dataclasses.replace(
        adapter,
        lora=jax.tree.map(lambda _: "lora", adapter.lora),
        tools=jax.tree.map(lambda _: "rows", adapter.tools),
        edges=jax.tree.map(lambda _: "rows", adapter.edges),
    )
