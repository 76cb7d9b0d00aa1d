"""The only place that names mesh axes: the mesh, the rule table, the layout of trees and batches.

Axes: `data` (rows, base held whole), `fsdp` (rows, base split), `tensor` (within a product).
"""

import math
from typing import Any

import jax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from graft_jax.errors import GraftError

AXES = ("data", "fsdp", "tensor")
ROWS = PartitionSpec(("data", "fsdp"))  # batches: rows over all devices that do not split a product
REPLICATED = PartitionSpec()

# Leaf name -> how its axes are laid out. What is not named is small and held whole.
RULES: dict[str, PartitionSpec] = {
    "embed": PartitionSpec("tensor", "fsdp"),
    "head": PartitionSpec("tensor", "fsdp"),
    "q": PartitionSpec("fsdp", "tensor"),
    "k": PartitionSpec("fsdp", "tensor"),
    "v": PartitionSpec("fsdp", "tensor"),
    "gate": PartitionSpec("fsdp", "tensor"),
    "up": PartitionSpec("fsdp", "tensor"),
    "o": PartitionSpec("tensor", "fsdp"),
    "down": PartitionSpec("tensor", "fsdp"),
}


def make_mesh(data: int = -1, fsdp: int = 1, tensor: int = 1) -> Mesh:
    """A mesh over the devices; one size may be -1 and takes what is left.

    Sizes given in full may leave devices of a single host unused, never those of several hosts.

    Raises:
      GraftError: sizes that the devices cannot fill.
    """
    sizes = [data, fsdp, tensor]
    count = jax.device_count()
    wanted = ", ".join(f"{axis} {size}" for axis, size in zip(AXES, sizes, strict=True))
    known = math.prod(size for size in sizes if size != -1)
    if sizes.count(-1) > 1 or any(size < 1 and size != -1 for size in sizes):
        raise GraftError(f"mesh {wanted}: one size may be -1, the others must be at least 1")
    given_in_full = -1 not in sizes
    if not given_in_full:
        sizes[sizes.index(-1)] = max(count // known, 1)
    total = math.prod(sizes)
    if total != count and not (total < count and given_in_full and jax.process_count() == 1):
        raise GraftError(
            f"mesh {wanted}: needs a multiple of {known} devices, there are {count}; set "
            "--mesh.data -1 to take what is left"
        )
    types = (AxisType.Auto,) * len(AXES)
    return jax.make_mesh(tuple(sizes), AXES, types, devices=jax.devices()[:total])


def base_sharding(mesh: Mesh, name: str, shape: tuple[int, ...]) -> NamedSharding:
    """How a base array is laid out, by its leaf name.

    Raises:
      GraftError: an axis of the mesh does not divide the array's size.
    """
    rule = RULES.get(name, REPLICATED)
    for size, axis in zip(shape, rule, strict=False):
        if axis is not None and size % mesh.shape[axis]:
            raise GraftError(
                f"weight {name!r} of shape {shape}: mesh axis {axis!r} of {mesh.shape[axis]} does "
                f"not divide {size}; choose a size that does"
            )
    return NamedSharding(mesh, rule)


def row_shards(mesh: Mesh) -> int:
    """Over how many devices the rows of a batch are spread."""
    return mesh.shape["data"] * mesh.shape["fsdp"]


def place_rows(mesh: Mesh, batch: Any) -> Any:
    """A batch's arrays with their rows spread over the mesh.

    Raises:
      GraftError: the rows do not divide by the devices that share them.
    """
    over = row_shards(mesh)
    for leaf in jax.tree.leaves(batch):
        if leaf.shape[0] % over:
            raise GraftError(
                f"a batch of {leaf.shape[0]} rows does not divide over data x fsdp = {over} "
                "devices; choose a batch size that does"
            )
    return jax.device_put(batch, NamedSharding(mesh, ROWS))


def replicate(mesh: Mesh, tree: Any) -> Any:
    """A tree held whole by every device."""
    return jax.device_put(tree, NamedSharding(mesh, REPLICATED))
