"""Tiny backbones made on the spot: a Hugging Face folder, a GGUF file, a tokenizer."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from graft_jax.io.huggingface import leaves
from graft_jax.models.spec import ModelSpec

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
SENTENCES = [
    "Turn the lights off and play some quiet music in the kitchen.",
    "Which trains leave for the coast tomorrow, and what does a seat cost?",
    "user assistant system query plan: 0 1 2 3 4 5 6 7 8 9",
]


@pytest.fixture(scope="session")
def bpe() -> Callable[..., Tokenizer]:
    """Makes a byte-level BPE tokenizer whose first entries are the control tokens."""

    def make(control: list[str] = CONTROL, plain_added: tuple[str, ...] = ()) -> Tokenizer:
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=330,
            show_progress=False,
            special_tokens=list(control),
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        )
        tokenizer.train_from_iterator(SENTENCES, trainer)
        tokenizer.add_tokens([AddedToken(t, special=False, normalized=False) for t in plain_added])
        return tokenizer

    return make


@pytest.fixture
def write_tokenizer() -> Callable[..., None]:
    """Writes tokenizer.json and tokenizer_config.json into a folder."""

    def write(folder: Path, tokenizer: Tokenizer, **config: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        tokenizer.save(str(folder / "tokenizer.json"))
        config = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": "<|im_end|>",
            "chat_template": TEMPLATE,
            **config,
        }
        config = {key: value for key, value in config.items() if value is not None}
        (folder / "tokenizer_config.json").write_text(json.dumps(config))

    return write


@pytest.fixture
def make_backbone(
    tmp_path: Path, bpe: Callable[..., Tokenizer], write_tokenizer: Callable[..., None]
) -> Callable[..., Path]:
    """Writes a whole tiny backbone; returns its folder."""

    def make(name: str = "tiny", dtype: Any = np.float32, **changes: Any) -> Path:
        folder = tmp_path / name
        write_tokenizer(folder, bpe())
        config = {
            "model_type": "llama",
            "vocab_size": 352,
            "hidden_size": 16,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "intermediate_size": 24,
            "rms_norm_eps": 1e-5,
            "rope_theta": 10000.0,
            "max_position_embeddings": 64,
            "eos_token_id": 2,
            "tie_word_embeddings": True,
            **changes,
        }
        (folder / "config.json").write_text(json.dumps(config))
        save_file(weights(ModelSpec.from_config(config), dtype), folder / "model.safetensors")
        return folder

    return make


def weights(spec: ModelSpec, dtype: Any) -> dict[str, np.ndarray]:
    """Random weights under Hugging Face's names, linear maps [out, in]."""
    rng = np.random.default_rng(0)
    shapes = {
        leaf.name: leaf.shape[::-1] if leaf.transposed else leaf.shape for leaf in leaves(spec)
    }
    return {name: rng.normal(size=shape).astype(dtype) for name, shape in shapes.items()}


# The GGUF file's sizes.
LAYERS, WIDTH, HEADS, KV_HEADS, HEAD, FF = 2, 64, 4, 2, 16, 96
Quantised = gguf.GGMLQuantizationType


def interleaved(rows: np.ndarray, heads: int) -> np.ndarray:
    """What llama.cpp's converter does to q and k: row i + s H/2 of a head becomes row 2i + s."""
    half = len(rows) // heads // 2
    result = np.empty_like(rows)
    for head in range(heads):
        for s in range(2):
            for i in range(half):
                result[(head * half + i) * 2 + s] = rows[(head * 2 + s) * half + i]
    return result


def linear_maps(layer: int) -> dict[str, tuple[str, tuple[int, int]]]:
    """GGUF's name -> (Hugging Face's name, [out, in])."""
    return {
        f"blk.{layer}.{ours}.weight": (f"model.layers.{layer}.{theirs}_proj.weight", shape)
        for ours, theirs, shape in (
            ("attn_q", "self_attn.q", (HEADS * HEAD, WIDTH)),
            ("attn_k", "self_attn.k", (KV_HEADS * HEAD, WIDTH)),
            ("attn_v", "self_attn.v", (KV_HEADS * HEAD, WIDTH)),
            ("attn_output", "self_attn.o", (WIDTH, HEADS * HEAD)),
            ("ffn_gate", "mlp.gate", (FF, WIDTH)),
            ("ffn_up", "mlp.up", (FF, WIDTH)),
            ("ffn_down", "mlp.down", (WIDTH, FF)),
        )
    }


@pytest.fixture
def write_gguf(tmp_path: Path, bpe: Callable[..., Tokenizer]) -> Callable[..., Any]:
    """Writes a tiny model; returns its path and the weights under Hugging Face's names."""

    def write(
        architecture: str = "llama",
        kind: Quantised = Quantised.F32,
        pre: str = "smollm",
        more: dict[str, Any] | None = None,
        extra_tensor: str = "",
        model: str = "gpt2",
    ) -> tuple[Path, dict[str, np.ndarray]]:
        path = tmp_path / "tiny.gguf"
        rng = np.random.default_rng(0)
        tokenizer = bpe()
        tokens = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)
        tokens += ["[PAD0]", "[PAD1]"]
        types = [3 if t in CONTROL else 5 if t.startswith("[PAD") else 1 for t in tokens]
        writer = gguf.GGUFWriter(path, architecture)
        writer.add_block_count(LAYERS)
        writer.add_context_length(128)
        writer.add_embedding_length(WIDTH)
        writer.add_feed_forward_length(FF)
        writer.add_head_count(HEADS)
        writer.add_head_count_kv(KV_HEADS)
        writer.add_rope_freq_base(100_000.0)
        writer.add_layer_norm_rms_eps(1e-5)
        writer.add_tokenizer_model(model)
        writer.add_tokenizer_pre(pre)
        writer.add_token_list(tokens)
        writer.add_token_types(types)
        merges = [" ".join(pair) for pair in _merges(tokenizer)]
        writer.add_token_merges(merges)
        writer.add_eos_token_id(2)
        writer.add_chat_template("{{ messages[0].content }}")
        for key, value in (more or {}).items():
            adders: dict[type, Any] = {
                int: writer.add_uint32,
                str: writer.add_string,
                list: writer.add_array,
            }
            adders[type(value)](key, value)

        wanted: dict[str, np.ndarray] = {}

        def add(ours: str, theirs: str, rows: np.ndarray, heads: int = 0) -> None:
            how = kind if rows.ndim == 2 else Quantised.F32
            packed = gguf.quants.quantize(rows, how)
            wanted[theirs] = gguf.quants.dequantize(packed, how)
            if heads:
                packed = gguf.quants.quantize(interleaved(rows, heads), how)
            writer.add_tensor(ours, packed, raw_dtype=how)

        def random(*shape: int) -> np.ndarray:
            return rng.normal(size=shape).astype(np.float32)

        add("token_embd.weight", "model.embed_tokens.weight", random(len(tokens), WIDTH))
        for layer in range(LAYERS):
            for ours, (theirs, shape) in linear_maps(layer).items():
                heads = {"attn_q": HEADS, "attn_k": KV_HEADS}.get(ours.split(".")[2], 0)
                add(ours, theirs, random(*shape), heads if architecture == "llama" else 0)
                if architecture == "qwen2" and ".attn_" in ours and "output" not in ours:
                    bias = ours.replace("weight", "bias"), theirs.replace("weight", "bias")
                    add(*bias, random(shape[0]))
            prefix = f"model.layers.{layer}"
            add(f"blk.{layer}.attn_norm.weight", f"{prefix}.input_layernorm.weight", random(WIDTH))
            norm = f"{prefix}.post_attention_layernorm.weight"
            add(f"blk.{layer}.ffn_norm.weight", norm, random(WIDTH))
        add("output_norm.weight", "model.norm.weight", random(WIDTH))
        if extra_tensor:
            add(extra_tensor, "extra", random(WIDTH))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path, wanted

    return write


def _merges(tokenizer: Tokenizer) -> list[list[str]]:
    return json.loads(tokenizer.to_str())["model"]["merges"]
