"""A whole planner's worth of tiny things, made on the spot: backbone, tokenizer, catalog, data.

The model is of the llama family with random float32 weights; 41 rows of its embedding are padding,
as large backbones have them.
"""

import dataclasses
import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from graft_jax.catalog.catalog import Catalog, Tool, save_catalog
from graft_jax.data.examples import CATALOG_FILE, Example, save_examples
from graft_jax.io.huggingface import leaves
from graft_jax.models.adapter import Adapter, EdgeProjections, Params
from graft_jax.models.lora import TARGETS, init_lora
from graft_jax.models.spec import ModelSpec
from graft_jax.models.tool_tokens import ToolRows

CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
EOS = CONTROL.index("<|im_end|>")
WORDS = len(CONTROL) + 256  # entries of the tokenizer
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def make_spec(**changes: Any) -> ModelSpec:
    """D 32, L 3, N 4, K 2, H 8, F 64, V 300 (259 of them real), tied."""
    spec = ModelSpec(
        family="llama",
        vocab_size=300,
        width=32,
        layers=3,
        heads=4,
        kv_heads=2,
        head_width=8,
        ff_width=64,
        rope_base=10_000.0,
        eps=1e-5,
        tied=True,
        eos_ids=(EOS,),
        max_positions=8192,
    )
    return dataclasses.replace(spec, **changes)


def tensors(spec: ModelSpec, seed: int = 0) -> dict[str, np.ndarray]:
    """Hugging Face's names -> random float32 weights, laid out as Hugging Face has them."""
    rng = np.random.default_rng(seed)
    made = {}
    for leaf in leaves(spec):
        shape = leaf.shape[::-1] if leaf.transposed else leaf.shape
        values = rng.standard_normal(shape)
        if leaf.transposed:
            values *= leaf.shape[0] ** -0.5
        elif leaf.name.endswith("norm.weight"):
            values = 1 + 0.1 * values
        else:
            values *= 0.3
        made[leaf.name] = values.astype(np.float32)
    return made


def make_base(spec: ModelSpec, dtype: Any = jnp.float32, seed: int = 0) -> dict[str, Any]:
    """The same weights as `load_base` reads them from `write_backbone`'s folder."""
    values = tensors(spec, seed)
    base: dict[str, Any] = {"layers": tuple({} for _ in range(spec.layers))}
    for leaf in leaves(spec):
        value = values[leaf.name].T if leaf.transposed else values[leaf.name]
        parent: Any = base
        for key in leaf.path[:-1]:
            parent = parent[key]
        parent[leaf.path[-1]] = jnp.asarray(value, jnp.float32 if leaf.float32 else dtype)
    return base


def make_adapter(
    spec: ModelSpec,
    capacity: int = 32,
    rank: int = 4,
    alpha: float = 12.0,
    targets: Sequence[str] = TARGETS,
    seed: int = 0,
) -> Adapter:
    """An adapter as after training: nothing in it is zero, and alpha is not the rank."""
    rng = np.random.default_rng(seed)

    def random(shape: Sequence[int], scale: float) -> jax.Array:
        return jnp.asarray((scale * rng.standard_normal(shape)).astype(np.float32))

    empty = jax.eval_shape(lambda: init_lora(jax.random.key(0), spec, rank, alpha, targets))
    lora = jax.tree.map(lambda array: random(array.shape, 0.15), empty)
    shape = (capacity, spec.width)
    return Adapter(
        lora=lora,
        tools=ToolRows(embed=random(shape, 0.3), head=None if spec.tied else random(shape, 0.3)),
        edges=EdgeProjections(
            hidden=random((spec.width, 16), 0.2), row=random((spec.width, 16), 1)
        ),
    )


def make_params(spec: ModelSpec, dtype: Any = jnp.float32, seed: int = 0, **adapter: Any) -> Params:
    """A planner's parameters with the adapter beside the base, not merged."""
    made = make_adapter(spec, seed=seed, **adapter)
    return Params(base=make_base(spec, dtype, seed), lora=made.lora, tools=made.tools)


def make_tokenizer() -> Tokenizer:
    """Byte-level BPE without merges: the control tokens, then one token a byte."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    entries = {token: i for i, token in enumerate([*CONTROL, *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=entries, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in CONTROL]
    )
    return tokenizer


def write_tokenizer(folder: Path) -> None:
    """`tokenizer.json` and `tokenizer_config.json`, with a ChatML template."""
    make_tokenizer().save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "pad_token": "<|im_end|>",
        "chat_template": TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def write_backbone(folder: Path, spec: ModelSpec, seed: int = 0) -> Path:
    """A complete Hugging Face folder of a llama with random weights."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": spec.family,
        "vocab_size": spec.vocab_size,
        "hidden_size": spec.width,
        "num_hidden_layers": spec.layers,
        "num_attention_heads": spec.heads,
        "num_key_value_heads": spec.kv_heads,
        "head_dim": spec.head_width,
        "intermediate_size": spec.ff_width,
        "rms_norm_eps": spec.eps,
        "rope_theta": spec.rope_base,
        "max_position_embeddings": spec.max_positions,
        "tie_word_embeddings": spec.tied,
        "eos_token_id": spec.eos_ids[0],
    }
    (folder / "config.json").write_text(json.dumps(config))
    save_file(tensors(spec, seed), folder / "model.safetensors", metadata={"format": "pt"})
    write_tokenizer(folder)
    return folder


# play_music ends every plan (a sink); send_message may follow itself.
_PHRASES = {
    "find_train": "find a train to {}",
    "book_seat": "book a seat to {}",
    "check_weather": "look up the weather in {}",
    "send_message": "write to {}",
    "set_alarm": "wake me for {}",
    "play_music": "play songs from {}",
}
_EDGES = (
    ("find_train", "book_seat"),
    ("find_train", "check_weather"),
    ("book_seat", "send_message"),
    ("book_seat", "set_alarm"),
    ("check_weather", "find_train"),
    ("check_weather", "send_message"),
    ("send_message", "send_message"),
    ("send_message", "set_alarm"),
    ("set_alarm", "play_music"),
    ("set_alarm", "check_weather"),
)
_PLACES = ("Rome", "Oslo", "Lima", "Bonn", "Cork", "Kyiv", "Bari", "Ghent", "Łódź")


def make_catalog() -> Catalog:
    """Six tools, a self-loop, a cycle and a sink."""
    tools = tuple(
        Tool(name, phrase.replace(" {}", "").capitalize()) for name, phrase in _PHRASES.items()
    )
    return Catalog(tools, _EDGES)


def make_examples(count: int, seed: int = 0) -> list[Example]:
    """Requests whose plans are walks of one to four tools along the graph, all different."""
    rng = np.random.default_rng(seed)
    catalog = make_catalog()
    made: dict[str, Example] = {}
    while len(made) < count:
        length = len(made) % 4 + 1
        plan = [str(rng.choice(catalog.names))]
        while len(plan) < length and len(onward := catalog.successors[catalog.index[plan[-1]]]):
            plan.append(catalog.names[rng.choice(onward)])
        subtasks = tuple(_PHRASES[tool].format(rng.choice(_PLACES)) for tool in plan)
        query = f"Please {' and then '.join(subtasks)}."
        made.setdefault(query, Example(f"tiny-{len(made)}", query, subtasks, tuple(plan)))
    assert all(pair in catalog.edge_set for e in made.values() for pair in pairwise(e.tools))
    return list(made.values())


def write_data(folder: Path) -> Path:
    """A data folder: `catalog.json`, 24 examples to train on, 6 to validate, 6 to test."""
    folder.mkdir(parents=True, exist_ok=True)
    save_catalog(make_catalog(), folder / CATALOG_FILE)
    examples = make_examples(36)
    for split, part in {"train": (0, 24), "validation": (24, 30), "test": (30, 36)}.items():
        save_examples(examples[slice(*part)], folder / f"{split}.jsonl")
    return folder


def assert_trees_close(actual: Any, wanted: Any, tolerance: float) -> None:
    """Every leaf equals its counterpart within `tolerance` times its largest value."""

    def check(path: Any, one: Any, other: Any) -> None:
        one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
        assert one.shape == other.shape, f"{jax.tree_util.keystr(path)}: {one.shape} {other.shape}"
        error, size = np.abs(one - other).max(initial=0.0), np.abs(other).max(initial=0.0)
        assert error <= tolerance * max(size, 1e-3), f"{jax.tree_util.keystr(path)}: {error} {size}"

    assert jax.tree.structure(actual) == jax.tree.structure(wanted)
    jax.tree_util.tree_map_with_path(check, actual, wanted)
