"""A backbone's Hugging Face folder: its spec, its weights as the base, its content's hash.

Reads `config.json` and safetensors files (one, or several with an index). Knows the names that
Hugging Face gives to weights; nothing of what is computed with them.
"""

import contextlib
import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError, safe_open

from graft_jax.errors import GraftError
from graft_jax.io.files import file_hash, read_json
from graft_jax.models.spec import ModelSpec

Base = dict[str, Any]
LeafPath = tuple[str | int, ...]
ShardingOf = Callable[[LeafPath, tuple[int, ...]], jax.sharding.Sharding]

_DTYPES = ("F32", "F16", "BF16")
_HEAD = "lm_head.weight"
_EMBED = "model.embed_tokens.weight"


class Leaf(NamedTuple):
    """One weight of the base: where it stands in the pytree and in the files."""

    path: LeafPath  # ("layers", 3, "q")
    name: str  # Hugging Face's tensor name
    shape: tuple[int, ...]  # in the pytree
    transposed: bool = False  # the file holds it the other way round
    float32: bool = False  # kept in float32 whatever the base's dtype


def leaves(spec: ModelSpec) -> list[Leaf]:
    """Every weight of a backbone, in the order of the layers.

    THE place that decides how linear maps are stored: [in, out], where Hugging Face has [out, in].
    """
    found = [Leaf(("embed",), _EMBED, (spec.vocab_size, spec.width))]
    for layer in range(spec.layers):
        found += _layer_leaves(spec, layer)
    found.append(Leaf(("final_norm",), "model.norm.weight", (spec.width,), float32=True))
    if not spec.tied:
        found.append(Leaf(("head",), _HEAD, (spec.vocab_size, spec.width)))
    return found


def _layer_leaves(spec: ModelSpec, layer: int) -> list[Leaf]:
    def leaf(key: str, name: str, shape: tuple[int, ...], **how: bool) -> Leaf:
        return Leaf(("layers", layer, key), f"model.layers.{layer}.{name}", shape, **how)

    found = [
        leaf("attn_norm", "input_layernorm.weight", (spec.width,), float32=True),
        leaf("mlp_norm", "post_attention_layernorm.weight", (spec.width,), float32=True),
    ]
    for key, shape in spec.linear_shapes.items():
        block = "mlp" if key in ("gate", "up", "down") else "self_attn"
        found.append(leaf(key, f"{block}.{key}_proj.weight", shape, transposed=True))
        if spec.qkv_bias and key in ("q", "k", "v"):
            found.append(leaf(f"{key}_bias", f"{block}.{key}_proj.bias", shape[1:], float32=True))
    if spec.qk_norm:
        for key in ("q_norm", "k_norm"):
            found.append(leaf(key, f"self_attn.{key}.weight", (spec.head_width,), float32=True))
    return found


def read_spec(folder: str | Path) -> ModelSpec:
    """Reads the folder's `config.json`.

    Raises:
      GraftError: no such folder or file, or a setting that this code does not compute.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise GraftError(f"{folder}: no such folder; give a backbone's Hugging Face folder")
    path = folder / "config.json"
    config = read_json(path)
    if not isinstance(config, dict):
        raise GraftError(f"{path}: is not a JSON object; fetch it again")
    return ModelSpec.from_config(config, str(path))


def load_base(
    folder: str | Path,
    spec: ModelSpec,
    dtype: Any = jnp.bfloat16,
    sharding_of: ShardingOf | None = None,
) -> Base:
    """Reads the frozen weights: unrolled, one array a weight a layer.

    Args:
      folder: Hugging Face folder with `*.safetensors`.
      spec: what the folder's `config.json` says (`read_spec`).
      dtype: of the embedding, the head and the linear maps (bfloat16 or float32).
      sharding_of: (path, shape) -> how that leaf lies on the devices; each process then reads only
        its own slices. None: every leaf whole on the default device.

    Returns:
      {"embed": [V, D], "final_norm": [D], "head": [V, D] unless tied, "layers": a tuple over L of
      {"attn_norm", "mlp_norm": [D], "q", "k", "v", "o", "gate", "up", "down": [in, out]} and, where
      the family has them, "q_bias", "k_bias", "v_bias": [out], "q_norm", "k_norm": [H]}. Norms and
      biases are float32.

    Raises:
      GraftError: a file is missing or cut short; a tensor is missing, unknown, of another shape, or
        not of floating type.
    """
    with WeightFiles(folder) as files:
        files.check(spec)
        base: Base = {"layers": tuple({} for _ in range(spec.layers))}
        for leaf in leaves(spec):
            sharding = sharding_of(leaf.path, leaf.shape) if sharding_of else None
            array = _read(files, leaf, jnp.float32 if leaf.float32 else dtype, sharding)
            parent: Any = base
            for key in leaf.path[:-1]:
                parent = parent[key]
            parent[leaf.path[-1]] = array
        return base


def _read(
    files: "WeightFiles", leaf: Leaf, dtype: Any, sharding: jax.sharding.Sharding | None
) -> jax.Array:
    def part(index: tuple[slice, ...] | None) -> np.ndarray:
        index = index or (slice(None),) * len(leaf.shape)
        array = files.read(leaf.name, index[::-1] if leaf.transposed else index)
        array = array.T if leaf.transposed else array
        return np.ascontiguousarray(array, dtype=dtype)

    if sharding is None:
        # A copy: an array that shares the file's memory map would change with the file.
        return jnp.array(part(None), copy=True)
    return jax.make_array_from_callback(leaf.shape, sharding, part)


class WeightFiles(contextlib.ExitStack):
    """The open safetensors files of a folder, one mapping of names over all of them."""

    def __init__(self, folder: str | Path):
        """Opens every file of the folder.

        Raises:
          GraftError: there is none, or one is missing or not whole.
        """
        super().__init__()
        self.folder = Path(folder)
        self._file_of: dict[str, Path] = {}
        self._open: dict[Path, Any] = {}
        for path in weight_files(folder):
            with _naming(path):
                opened = self.enter_context(safe_open(path, framework="np"))
                self._open[path] = opened
                for name in opened.keys():  # noqa: SIM118 - a handle, not a mapping
                    if name in self._file_of:
                        raise GraftError(f"{path}: {name} is also in {self._file_of[name].name}")
                    self._file_of[name] = path

    def names(self) -> set[str]:
        """The tensors' names."""
        return set(self._file_of)

    def shape(self, name: str) -> tuple[int, ...]:
        """A tensor's shape as the file has it."""
        path = self._path(name)
        with _naming(path, name):
            return tuple(self._open[path].get_slice(name).get_shape())

    def read(self, name: str, index: tuple[slice, ...]) -> np.ndarray:
        """Reads a slice of a tensor, as the file has it (float32, float16 or bfloat16)."""
        path = self._path(name)
        with _naming(path, name):
            part = self._open[path].get_slice(name)
            if part.get_dtype() not in _DTYPES:
                raise GraftError(
                    f"{path}: tensor {name} is {part.get_dtype()}, not one of "
                    f"{', '.join(_DTYPES)}; use a backbone that is not quantised"
                )
            return part[index]

    def check(self, spec: ModelSpec) -> None:
        """Holds names and shapes against the spec (and a tied folder's head against its embedding).

        Raises:
          GraftError: naming the first tensor that is missing, unknown or of another shape.
        """
        known = set()
        for leaf in leaves(spec):
            known.add(leaf.name)
            wanted = leaf.shape[::-1] if leaf.transposed else leaf.shape
            if (found := self.shape(leaf.name)) != wanted:
                raise GraftError(
                    f"{self._path(leaf.name)}: tensor {leaf.name} is {list(found)}, but "
                    f"config.json says {list(wanted)}; use files of one and the same backbone"
                )
        extra = {name for name in self.names() - known if not name.endswith("rotary_emb.inv_freq")}
        if spec.tied and _HEAD in extra:
            extra.remove(_HEAD)
            whole = (slice(None), slice(None))
            if not np.array_equal(self.read(_HEAD, whole), self.read(_EMBED, whole)):
                raise GraftError(
                    f"{self._path(_HEAD)}: {_HEAD} differs from {_EMBED} although config.json ties "
                    "them; set tie_word_embeddings to false there if the head is its own"
                )
        if extra:
            name = min(extra)
            raise GraftError(
                f"{self._path(name)}: tensor {name} is not understood and might change the result; "
                "use a backbone without it"
            )

    def _path(self, name: str) -> Path:
        if name not in self._file_of:
            raise GraftError(
                f"{self.folder}: tensor {name} is in none of the *.safetensors files; "
                "fetch the backbone again"
            )
        return self._file_of[name]


def weight_files(folder: str | Path) -> list[Path]:
    """The folder's safetensors files: the index's, or the only one.

    Raises:
      GraftError: there is none, or a file of the index is missing.
    """
    folder = Path(folder)
    index, single = folder / "model.safetensors.index.json", folder / "model.safetensors"
    if index.exists():
        content = read_json(index)
        places = content.get("weight_map") if isinstance(content, dict) else None
        if not isinstance(places, dict) or not all(isinstance(n, str) for n in places.values()):
            raise GraftError(f"{index}: has no weight_map of names and files; fetch it again")
        paths = [folder / name for name in sorted(set(places.values()))]
    else:
        paths = [single]
    for path in paths:
        if not path.is_file():
            raise GraftError(f"{path}: no such file; fetch the backbone's *.safetensors files")
    return paths


def content_hash(folder: str | Path) -> str:
    """SHA-256 over all that decides what a backbone answers: spec, weight files, `tokenizer.json`.

    The files' full content is read. Settings that do not change the forward pass, and how they are
    spelled, do not count.

    Raises:
      GraftError: one of the files is missing.
    """
    folder = Path(folder)
    digest = hashlib.sha256(_canonical(read_spec(folder)).encode())
    for path in [*weight_files(folder), folder / "tokenizer.json"]:
        try:
            digest.update(f"\n{path.name} {file_hash(path)}".encode())
        except OSError as error:
            raise GraftError(f"{path}: cannot be read ({error}); fetch it again") from error
    return digest.hexdigest()


def _canonical(spec: ModelSpec) -> str:
    """The spec as text. Fields at their default are left out: a new one changes no old hash."""
    fields = dataclasses.asdict(spec)
    for field in dataclasses.fields(spec):
        if fields[field.name] == field.default:
            del fields[field.name]
    return json.dumps(fields, sort_keys=True)


@contextlib.contextmanager
def _naming(path: Path, tensor: str = "") -> Iterator[None]:
    """Turns what safetensors raises into an error that names the file and the tensor."""
    try:
        yield
    except (SafetensorError, OSError) as error:
        what = f"tensor {tensor}" if tensor else "the file"
        raise GraftError(f"{path}: {what} cannot be read ({error}); fetch it again") from error
