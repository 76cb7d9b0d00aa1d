"""All that is trained: LoRA weights, tool rows, edge projections. And the planner's parameters."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct, traverse_util

from graft_jax.errors import GraftError
from graft_jax.models.lora import TARGETS, Lora, init_lora
from graft_jax.models.spec import ModelSpec
from graft_jax.models.tool_tokens import ToolRows, init_tool_rows


@struct.dataclass
class EdgeProjections:
    """W_h and W_e of Eq. 7, float32 [D, P] each."""

    hidden: jax.Array
    row: jax.Array


@struct.dataclass
class Adapter:
    """The trained part of a planner; the base beside it stays frozen."""

    lora: Lora
    tools: ToolRows
    edges: EdgeProjections


@struct.dataclass
class Params:
    """A planner's arrays. After `merge`, `lora` is None and the base holds the merged weights."""

    base: dict[str, Any]
    lora: Lora | None
    tools: ToolRows


def init_adapter(
    key: jax.Array,
    base: dict[str, Any],
    spec: ModelSpec,
    tool_token_ids: Sequence[Sequence[int]],
    capacity: int,
    rank: int = 16,
    alpha: float = 32.0,
    targets: Sequence[str] = TARGETS,
    projection: int = 256,
) -> Adapter:
    """A fresh adapter: LoRA at zero, tool rows from metadata, scaled random projections."""
    lora_key, hidden_key, row_key = jax.random.split(key, 3)
    scale = spec.width**-0.5
    shape = (spec.width, projection)
    return Adapter(
        lora=init_lora(lora_key, spec, rank, alpha, targets),
        tools=init_tool_rows(base, tool_token_ids, capacity),
        edges=EdgeProjections(
            hidden=scale * jax.random.normal(hidden_key, shape),
            row=scale * jax.random.normal(row_key, shape),
        ),
    )


def flatten_adapter(adapter: Adapter) -> dict[str, np.ndarray]:
    """{"lora.0.qkv.a": array, ..., "tools.embed": array, ...}: the names of the stored file."""
    state: dict[str, Any] = {
        "lora": {str(i): layer for i, layer in enumerate(adapter.lora.layers)},
        "tools": {"embed": adapter.tools.embed},
        "edges": {"hidden": adapter.edges.hidden, "row": adapter.edges.row},
    }
    if adapter.tools.head is not None:
        state["tools"]["head"] = adapter.tools.head
    flat = traverse_util.flatten_dict(state, sep=".")
    return {name: np.asarray(value) for name, value in flat.items()}


def unflatten_adapter(flat: dict[str, np.ndarray], scale: float, where: str) -> Adapter:
    """The inverse of `flatten_adapter`; `scale` is LoRA's alpha / rank."""
    state = traverse_util.unflatten_dict({k: jnp.asarray(v) for k, v in flat.items()}, sep=".")
    try:
        layers = tuple(state["lora"][str(i)] for i in range(len(state["lora"])))
        return Adapter(
            lora=Lora(layers=layers, scale=scale),
            tools=ToolRows(embed=state["tools"]["embed"], head=state["tools"].get("head")),
            edges=EdgeProjections(hidden=state["edges"]["hidden"], row=state["edges"]["row"]),
        )
    except KeyError as error:
        raise GraftError(
            f"{where}: tensor group {error} is missing; the file is not a planner's adapter, or "
            "was cut; train or copy the planner again"
        ) from None
