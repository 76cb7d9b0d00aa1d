"""Tool planning with a small language model that has its tool graph in its weights.

`load` reads a trained planner, `plan` turns a request into an ordered, legal tool chain.
"""

from typing import TYPE_CHECKING, Any

from graft_jax._version import __version__
from graft_jax.errors import GraftError

if TYPE_CHECKING:
    from graft_jax.planner import Plan, Planner, add_tool, load, plan, remove_tool

_PLANNER = ("Plan", "Planner", "add_tool", "load", "plan", "remove_tool")

__all__ = [
    "GraftError",
    "Plan",
    "Planner",
    "__version__",
    "add_tool",
    "load",
    "plan",
    "remove_tool",
]


def __getattr__(name: str) -> Any:
    # JAX and the tokenizer libraries are imported when a planner is first asked for, so that the
    # parts that need neither (catalogs, metrics) start at once.
    if name in _PLANNER:
        from graft_jax import planner

        return getattr(planner, name)
    raise AttributeError(f"module 'graft_jax' has no attribute {name!r}")
