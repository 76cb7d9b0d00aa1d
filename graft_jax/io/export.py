"""Export: a planner as a Hugging Face folder, for transformers and whatever reads such folders.

LoRA is merged, and tool i is an ordinary token with id len(tokenizer) + i: the embedding's spare
rows are used first, then it grows. graft.json says which ids are tools and how a prompt is made.

Tool tokens are added tokens that are not special, so that decoding a plan shows them. Whether
`<Text_to_Image>` typed in a query stays text is then up to whoever tokenises the query.

Knows files and names; nothing of training or decoding. Holds one shard of weights in memory.
"""

import dataclasses
import json
import math
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

from graft_jax._version import __version__
from graft_jax.catalog.names import tool_tokens
from graft_jax.errors import GraftError
from graft_jax.io.files import locked, read_json, write_json, write_text, written_folder
from graft_jax.io.huggingface import Leaf, WeightFiles, leaves, read_spec
from graft_jax.io.planner_folder import TOKENIZER, Stored, load_planner_folder
from graft_jax.io.tokenizer import chat_frame, encode_text, ending_plans, load_tokenizer
from graft_jax.models.adapter import Adapter
from graft_jax.models.lora import lora_delta, members
from graft_jax.models.spec import ModelSpec

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

GRAFT = "graft.json"
FORMAT = 1
DTYPES: dict[str, Any] = {"keep": None, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32}
EXAMPLE = "Find a train to the coast for Friday and book a seat by the window."
_MULTIPLE = 64  # of the rows of an embedding that grows: a width that accelerators like
_SHARD_BYTES = 1 << 30  # older safetensors hold a shard twice while they write it


@dataclasses.dataclass(frozen=True)
class Layout:
    """Where the tools stand in the exported vocabulary.

    words: entries of the backbone's tokenizer, hence the id of tool 0; tokens: the text of every
    tool, tool i having id words + i; rows: of the exported embedding, zero behind the last tool.
    """

    words: int
    tokens: tuple[str, ...]
    rows: int

    @property
    def tool_ids(self) -> range:
        """Ids of the tools, in index order."""
        return range(self.words, self.words + len(self.tokens))

    @property
    def padding_ids(self) -> range:
        """Ids of rows that stand for nothing."""
        return range(self.tool_ids.stop, self.rows)


def export(
    planner: str | Path,
    to: str,
    out: str | Path,
    backbone: str | Path | None = None,
    dtype: str = "keep",
    shard_bytes: int = _SHARD_BYTES,
) -> Layout:
    """Writes the planner of a planner folder into the new folder `out`, whole or not at all.

    Args:
      planner: a planner folder.
      to: the format, a key of `FORMATS`.
      out: the folder to make.
      backbone: the backbone's folder, where it is not the one the planner names.
      dtype: of the weights, a key of `DTYPES`; "keep": what each of the backbone's weights has.
      shard_bytes: of a weight file at most, unless a single weight is larger.

    Raises:
      GraftError: `out` exists, the format or dtype is unknown, the planner or its backbone is
        missing or damaged, or its tokenizer cannot take the tools as the ids that follow its own.
    """
    for value, known, flag in ((to, FORMATS, "--to"), (dtype, DTYPES, "--dtype")):
        if value not in known:
            raise GraftError(f"{flag} {value}: there is only {', '.join(known)}; give one of them")
    with locked(Path(out).parent), written_folder(out) as folder:
        return FORMATS[to](Path(planner), folder, backbone, DTYPES[dtype], shard_bytes)


def make_layout(names: Sequence[str], vocabulary: Mapping[str, int], rows: int) -> Layout:
    """Places tools behind a tokenizer's entries.

    Args:
      names: raw tool names.
      vocabulary: text -> id of the backbone's tokenizer; no tool gets one of these texts.
      rows: V of the backbone, kept where the tools fit into its spare rows, else rounded up.

    Raises:
      GraftError: the tokenizer's ids have gaps, so that none follows the last entry.
    """
    words = len(vocabulary)
    if max(vocabulary.values()) != words - 1:
        raise GraftError(
            f"the backbone's tokenizer has {words} entries but ids up to "
            f"{max(vocabulary.values())}: tools cannot follow them; choose another backbone"
        )
    needed = words + len(names)
    if needed > rows:
        rows = math.ceil(needed / _MULTIPLE) * _MULTIPLE
    return Layout(words, tool_tokens(names, reserved=vocabulary), rows)


def _export_hf(
    planner: Path, folder: Path, backbone: str | Path | None, dtype: Any, shard_bytes: int
) -> Layout:
    stored = load_planner_folder(planner, backbone)
    tokenizer = load_tokenizer(planner / TOKENIZER)
    spec = ending_plans(read_spec(stored.backbone), tokenizer)
    layout = make_layout(stored.catalog.names, tokenizer.get_vocab(), spec.vocab_size)
    config = read_json(stored.backbone / "config.json") | {"vocab_size": layout.rows}
    if dtype is not None:
        config.pop("dtype", None)
        config["torch_dtype"] = np.dtype(dtype).name  # the spelling that every version reads
    write_json(folder / "config.json", config)
    write_json(
        folder / "generation_config.json",
        _generation(stored.card["longest_plan"] + 1, layout, spec, tokenizer.pad_token_id),
    )
    shutil.copytree(planner / TOKENIZER, folder, dirs_exist_ok=True)
    _add_tokens(folder, layout)
    exported = load_tokenizer(folder)
    _check_tokenizer(exported, tokenizer, layout)
    about = _about(stored, layout, spec, exported)
    write_json(folder / GRAFT, about)
    write_text(folder / "README.md", _README)
    _write_weights(folder, stored, spec, layout, dtype, shard_bytes)
    return layout


FORMATS: dict[str, Callable[..., Layout]] = {"hf": _export_hf}


# Weights


def _write_weights(
    folder: Path, stored: Stored, spec: ModelSpec, layout: Layout, dtype: Any, shard_bytes: int
) -> None:
    """model.safetensors, or shards and their index; one shard in memory at a time."""
    adapter: Adapter = jax.tree.map(np.asarray, stored.adapter)
    wanted = leaves(dataclasses.replace(spec, vocab_size=layout.rows))
    with WeightFiles(stored.backbone) as files:
        files.check(spec)

        def dtype_of(leaf: Leaf) -> np.dtype:
            one = (slice(0, 1),) * len(leaf.shape)
            return np.dtype(dtype or files.read(leaf.name, one).dtype)

        sizes = [math.prod(leaf.shape) * dtype_of(leaf).itemsize for leaf in wanted]
        shards = list(_shards(wanted, sizes, shard_bytes))
        names = [f"model-{i:05}-of-{len(shards):05}.safetensors" for i, _ in enumerate(shards, 1)]
        if len(shards) == 1:
            names = ["model.safetensors"]
        for name, shard in zip(names, shards, strict=True):
            save_file(
                {
                    leaf.name: _tensor(files, leaf, dtype_of(leaf), adapter, layout)
                    for leaf in shard
                },
                folder / name,
                metadata={"format": "pt"},
            )
    if len(shards) > 1:
        places = zip(names, shards, strict=True)
        write_json(
            folder / "model.safetensors.index.json",
            {
                "metadata": {"total_size": sum(sizes)},
                "weight_map": {leaf.name: name for name, shard in places for leaf in shard},
            },
        )


def _shards(wanted: Sequence[Leaf], sizes: Sequence[int], limit: int) -> Iterator[list[Leaf]]:
    """Leaves in order, cut into runs of at most `limit` bytes (or of one larger leaf)."""
    shard: list[Leaf] = []
    held = 0
    for leaf, size in zip(wanted, sizes, strict=True):
        if shard and held + size > limit:
            yield shard
            shard, held = [], 0
        shard.append(leaf)
        held += size
    yield shard


def _tensor(
    files: WeightFiles, leaf: Leaf, dtype: np.dtype, adapter: Adapter, layout: Layout
) -> np.ndarray:
    """One exported weight, laid out as the files have it: merged, or with the tools' rows."""
    if leaf.path in (("embed",), ("head",)):
        rows: Any = adapter.tools.embed if leaf.path == ("embed",) else adapter.tools.head
        kept = min(layout.words, files.shape(leaf.name)[0])
        value = np.zeros(leaf.shape, dtype)
        value[:kept] = files.read(leaf.name, (slice(0, kept), slice(None)))
        value[layout.tool_ids.start : layout.tool_ids.stop] = rows[: len(layout.tokens)]
        return value
    value = files.read(leaf.name, (slice(None),) * len(leaf.shape))
    delta = _delta(adapter, leaf)
    if delta is not None:
        value = value.astype(np.float32) + delta.T
    return np.ascontiguousarray(value, dtype=dtype)


def _delta(adapter: Adapter, leaf: Leaf) -> Any:
    """(alpha / rank) · A B of an adapted map, float32 [in, out]; None for any other weight."""
    if leaf.path[0] == "layers":
        _, layer, key = leaf.path
        for name, group in adapter.lora.layers[int(layer)].items():
            if key in members(group, name):
                return lora_delta(group, name, str(key), adapter.lora.scale)
    return None


# Tokenizer and text


def _add_tokens(folder: Path, layout: Layout) -> None:
    """Adds the tools to the tokenizer's own files, which otherwise stay as they are."""
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    entries = {
        number: {"content": token, **flags}
        for number, token in zip(layout.tool_ids, layout.tokens, strict=True)
    }
    path = folder / "tokenizer.json"
    content = read_json(path)
    content["added_tokens"] = [
        *(content.get("added_tokens") or []),
        *({"id": number, **entry} for number, entry in entries.items()),
    ]
    write_text(path, json.dumps(content, ensure_ascii=False))
    path = folder / "tokenizer_config.json"
    if path.is_file() and "added_tokens_decoder" in (config := read_json(path)):
        config["added_tokens_decoder"] |= {str(number): entry for number, entry in entries.items()}
        write_json(path, config)


def _check_tokenizer(
    exported: "PreTrainedTokenizerBase", own: "PreTrainedTokenizerBase", layout: Layout
) -> None:
    """Every tool has its id and is decoded to its text; all other text is read as before.

    Raises:
      GraftError: it is not so.
    """
    same = encode_text(exported, EXAMPLE) == encode_text(own, EXAMPLE)
    wrong = [
        token
        for number, token in zip(layout.tool_ids, layout.tokens, strict=True)
        if exported.convert_tokens_to_ids(token) != number
        or exported.decode([number], skip_special_tokens=True) != token
    ]
    if wrong or not same or len(exported) != layout.tool_ids.stop:
        what = f"the tool token {wrong[0]}" if wrong else "text"
        raise GraftError(
            f"the backbone's tokenizer does not take the tools: with them {what} is read otherwise "
            "than it must be; choose another backbone"
        )


def _generation(steps: int, layout: Layout, spec: ModelSpec, pad_id: int | None) -> dict[str, Any]:
    """generation_config.json: greedy plans of 1 to `steps` tools, as the planner makes them."""
    end = spec.end_id
    config: dict[str, Any] = {
        "do_sample": False,
        "eos_token_id": end,
        "pad_token_id": end if pad_id is None else pad_id,
        "min_new_tokens": 1,
        "max_new_tokens": steps,
    }
    if layout.padding_ids:
        config["suppress_tokens"] = list(layout.padding_ids)
    return config


def _about(
    stored: Stored, layout: Layout, spec: ModelSpec, tokenizer: "PreTrainedTokenizerBase"
) -> dict[str, Any]:
    """graft.json: tools <-> ids, the ids a plan consists of, and how a prompt is made."""
    end = spec.end_id
    words = stored.card["prompts"]
    prefix, after = chat_frame(tokenizer, words["student_system"])
    before = prefix + encode_text(tokenizer, words["query"])
    ids = before + encode_text(tokenizer, EXAMPLE) + after
    return {
        "format": FORMAT,
        "version": __version__,
        "backbone": {"content_hash": stored.card["backbone"]["content_hash"]},
        "end_of_plan": {"token": tokenizer.convert_ids_to_tokens(end), "id": end},
        "tools": [
            {"name": name, "token": token, "id": number}
            for name, token, number in zip(
                stored.catalog.names, layout.tokens, layout.tool_ids, strict=True
            )
        ],
        "allowed_ids": [end, *layout.tool_ids],
        "max_query_tokens": stored.card["max_query_tokens"],
        "prompt": {"before_query": before, "after_query": after},
        "templates": words,
        "example": {"query": EXAMPLE, "ids": ids, "text": tokenizer.decode(ids)},
    }


_README = """# A tool planner

Reads a request and answers with a chain of tools, one token a tool. Made with graft-jax.
Run from this folder:

```python
import json
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

graft = json.loads(Path("graft.json").read_text(encoding="utf-8"))
tool = {entry["id"]: entry["name"] for entry in graft["tools"]}
tokenizer = AutoTokenizer.from_pretrained(".")
model = AutoModelForCausalLM.from_pretrained(".")

query = graft["example"]["query"]
text = tokenizer(query.strip(), add_special_tokens=False).input_ids
ids = torch.tensor([graft["prompt"]["before_query"] + text + graft["prompt"]["after_query"]])
answer = model.generate(
    ids,
    attention_mask=torch.ones_like(ids),
    prefix_allowed_tokens_fn=lambda *_: graft["allowed_ids"],
)
print([tool[i] for i in answer[0, ids.shape[1] :].tolist() if i in tool])
```

- `graft.json` maps raw tool names to token texts and ids. `allowed_ids` are the tools and the end
  of a plan; the edges of the tool graph are not in this folder.
- Put the ids of a prompt together as above rather than tokenising one long text: the query was
  tokenised by itself in training.
- A query of more than `max_query_tokens` tokens is cut: its first three quarters of that many are
  kept, and its last quarter.
- A tool token such as `<Text_to_Image>` typed in a query becomes that tool here. To have typed text
  stay text, tokenise queries with the backbone's tokenizer and `split_special_tokens=True`; all
  other text has the same ids there.
"""
