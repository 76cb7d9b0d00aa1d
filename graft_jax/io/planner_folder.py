"""The planner folder on disk: planner.json, catalog.json, adapter.safetensors, tokenizer/.

A few megabytes beside a backbone that is referenced and whose content hash is checked on load.
Knows files and trees; nothing of training or decoding.
"""

import dataclasses
import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict

import jax
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from graft_jax.catalog.catalog import Catalog, load_catalog, save_catalog
from graft_jax.errors import GraftError
from graft_jax.io.files import file_hash, read_json, write_json, written, written_folder
from graft_jax.io.huggingface import content_hash, read_spec
from graft_jax.models.adapter import Adapter, flatten_adapter, unflatten_adapter
from graft_jax.models.lora import init_lora
from graft_jax.models.spec import ModelSpec
from graft_jax.shapes import misfit

FORMAT = 1
PLANNER, CATALOG, ADAPTER, TOKENIZER = (
    "planner.json",
    "catalog.json",
    "adapter.safetensors",
    "tokenizer",
)
_TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
)


class _Backbone(TypedDict):
    path: str
    content_hash: str


class _Lora(TypedDict):
    rank: int
    alpha: float
    targets: list[str]


class _Training(TypedDict):
    data: str
    dtype: str
    train_on_validation: bool


class _Card(TypedDict):
    """What planner.json must hold; what else stands in it is for people."""

    backbone: _Backbone
    adapter_hash: str
    catalog_hash: str
    tokenizer_hash: str
    data_hash: str
    prompts: dict[str, Any]
    config: _Training
    lora: _Lora
    capacity: int
    longest_plan: int
    max_query_tokens: int


@dataclasses.dataclass(frozen=True)
class Stored:
    """What a planner folder holds. `card` is planner.json, with everything that `_Card` names."""

    card: dict[str, Any]
    catalog: Catalog
    adapter: Adapter
    backbone: Path


def save_planner(
    folder: str | Path,
    adapter: Adapter,
    catalog: Catalog,
    backbone: str | Path,
    card: Mapping[str, Any],
) -> None:
    """Writes a planner folder; planner.json last, so that a folder that has it is whole.

    `card` holds what training knows (spec, prompts, LoRA, stages, scores); the format version and
    the hashes are added here. Other files of the folder are left alone.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / PLANNER).unlink(missing_ok=True)
    shutil.rmtree(folder / TOKENIZER, ignore_errors=True)  # of a write that was cut short
    save_catalog(catalog, folder / CATALOG)
    with written(folder / ADAPTER) as temporary:
        save_file(flatten_adapter(adapter), temporary)
    with written_folder(folder / TOKENIZER) as temporary:
        for name in _TOKENIZER_FILES:
            if (Path(backbone) / name).is_file():
                shutil.copy(Path(backbone) / name, temporary / name)
    write_json(
        folder / PLANNER,
        {
            **card,
            "format": FORMAT,
            "backbone": {"path": str(backbone), "content_hash": content_hash(backbone)},
            "adapter_hash": file_hash(folder / ADAPTER),
            "catalog_hash": catalog.content_hash(),
            "tokenizer_hash": _tokenizer_hash(folder),
        },
    )


def load_planner_folder(folder: str | Path, backbone: str | Path | None = None) -> Stored:
    """Reads a planner folder and checks it against its backbone.

    The backbone is looked for where `backbone` says, else where planner.json says: as given, then
    relative to the planner folder.

    Raises:
      GraftError: a file is missing or damaged, the folder is of a newer format, or the backbone is
        gone or not the one the planner was trained on.
    """
    folder = Path(folder)
    path = folder / PLANNER
    if not path.is_file():
        raise GraftError(
            f"{folder}: is no planner folder (no {PLANNER}); give the run folder of a finished "
            "training, such as runs/quickstart"
        )
    card = _read_card(path)
    catalog = load_catalog(folder / CATALOG)
    if catalog.content_hash() != card["catalog_hash"]:
        raise GraftError(
            f"{folder / CATALOG}: is not the catalog this planner was trained on; put the original "
            "back, and change tools with graft_jax.add_tool and remove_tool, or train again"
        )
    file = folder / ADAPTER
    try:
        intact = file_hash(file) == card["adapter_hash"]
        flat = load_file(file) if intact else {}
    except (OSError, SafetensorError) as error:
        raise GraftError(f"{file}: cannot be read ({error}); copy the planner again") from error
    if not intact:
        raise GraftError(
            f"{file}: differs from what {PLANNER} describes; the folder was copied in part, copy "
            "it again"
        )
    if _tokenizer_hash(folder) != card["tokenizer_hash"]:
        raise GraftError(
            f"{folder / TOKENIZER}: is not the tokenizer this planner was trained with; copy the "
            "planner again"
        )
    lora = card["lora"]
    adapter = unflatten_adapter(flat, lora["alpha"] / lora["rank"], str(file))
    where = _find_backbone(folder, card["backbone"], backbone)
    found = content_hash(where)
    if found != card["backbone"]["content_hash"]:
        raise GraftError(
            f"{where}: is not the backbone this planner was trained on (that was "
            f"{card['backbone']['path']}, content {card['backbone']['content_hash'][:12]}; this is "
            f"{found[:12]}); give the right folder with --backbone"
        )
    _check_shapes(adapter, card, read_spec(where), len(catalog), file)
    return Stored(card, catalog, adapter, where)


def _read_card(path: Path) -> dict[str, Any]:
    card = read_json(path)
    if not isinstance(card, dict):
        raise GraftError(f"{path}: is not a planner's card; train or copy the planner again")
    if card.get("format") != FORMAT:
        raise GraftError(
            f"{path}: format {card.get('format')!r} is not {FORMAT}; use the version of graft-jax "
            "that wrote it"
        )
    found = misfit(card, _Card)
    if found:
        raise GraftError(f"{path}: {found}; train or copy the planner again")
    sizes = {name: card[name] for name in ("capacity", "longest_plan", "max_query_tokens")}
    for name, size in (sizes | {"lora.rank": card["lora"]["rank"]}).items():
        if size < 1:
            raise GraftError(f"{path}: {name} is {size}, below 1; train or copy the planner again")
    return card


def _tokenizer_hash(folder: Path) -> str:
    files = [folder / TOKENIZER / name for name in _TOKENIZER_FILES]
    digest = hashlib.sha256()
    for file in files:
        if file.is_file():
            digest.update(f"{file.name} {file_hash(file)}\n".encode())
    return digest.hexdigest()


def _check_shapes(
    adapter: Adapter, card: Mapping[str, Any], spec: ModelSpec, count: int, file: Path
) -> None:
    """Refuses an adapter that does not belong to the card's sizes and the backbone's."""
    lora, capacity = card["lora"], card["capacity"]
    wanted = jax.eval_shape(
        lambda: init_lora(jax.random.key(0), spec, lora["rank"], 1.0, lora["targets"]).layers
    )
    rows = adapter.tools
    fits = (
        _shapes(adapter.lora.layers) == _shapes(wanted)
        and rows.embed.shape == (capacity, spec.width)
        and (rows.head is None) == spec.tied
        and (rows.head is None or rows.head.shape == rows.embed.shape)
        and count <= capacity
        and not capacity % 32
    )
    if not fits:
        raise GraftError(
            f"{file}: its arrays do not have the sizes that {PLANNER} and the backbone say; copy "
            "the planner again"
        )


def _shapes(tree: Any) -> dict[str, tuple[int, ...]]:
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path): leaf.shape for path, leaf in leaves}


def _find_backbone(
    folder: Path, reference: Mapping[str, str], given: str | os.PathLike[str] | None
) -> Path:
    tried = [Path(given)] if given is not None else []
    if given is None:
        tried = [Path(reference["path"]), folder / reference["path"]]
    for candidate in tried:
        if (candidate / "config.json").is_file():
            return candidate
    raise GraftError(
        f"{folder}: its backbone is not at {' or '.join(map(str, tried))}; fetch it (python "
        "data_prep/backbone.py --help) or give its folder with --backbone"
    )
