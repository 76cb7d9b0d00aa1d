"""GGUF files of the llama family: their settings and weights under Hugging Face's names.

Knows the file's layout and llama.cpp's conventions; not the tokenizer (`gguf_tokenizer`), and
nothing of JAX.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

from graft_jax.errors import GraftError

# Hugging Face's classes; GGUF calls mistral "llama", with a sliding window.
_CLASSES = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}
_ARCHITECTURES = ("llama", "qwen2", "qwen3")
_EMBED = "model.embed_tokens.weight"
_GLOBAL_NAMES = {
    "token_embd.weight": _EMBED,
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_LAYER_NAMES = {
    "attn_norm.weight": "input_layernorm.weight",
    "attn_q.weight": "self_attn.q_proj.weight",
    "attn_k.weight": "self_attn.k_proj.weight",
    "attn_v.weight": "self_attn.v_proj.weight",
    "attn_q.bias": "self_attn.q_proj.bias",
    "attn_k.bias": "self_attn.k_proj.bias",
    "attn_v.bias": "self_attn.v_proj.bias",
    "attn_q_norm.weight": "self_attn.q_norm.weight",
    "attn_k_norm.weight": "self_attn.k_norm.weight",
    "attn_output.weight": "self_attn.o_proj.weight",
    "ffn_norm.weight": "post_attention_layernorm.weight",
    "ffn_gate.weight": "mlp.gate_proj.weight",
    "ffn_up.weight": "mlp.up_proj.weight",
    "ffn_down.weight": "mlp.down_proj.weight",
}


class GgufFile:
    """An open GGUF file (memory-mapped; weights are read when asked for)."""

    def __init__(self, path: str | Path):
        """Opens `path`.

        Raises:
          GraftError: no such file, not a GGUF file, cut short, or of another architecture.
        """
        self.path = Path(path)
        if not self.path.is_file():
            raise GraftError(f"{path}: no such file; give a .gguf file")
        try:
            self._reader = GGUFReader(self.path)
        except (ValueError, IndexError, KeyError, OverflowError, MemoryError) as error:
            raise GraftError(f"{path}: not a whole GGUF file ({error}); fetch it again") from error
        self.architecture: str = self.value("general.architecture", "")
        if self.architecture not in _ARCHITECTURES:
            raise GraftError(
                f"{path}: architecture {self.architecture!r} is not one of "
                f"{', '.join(_ARCHITECTURES)}; choose a backbone of one of these"
            )

    def value(self, key: str, default: Any = None) -> Any:
        """The metadata under `key`, or `default`."""
        field = self._reader.get_field(key)
        return default if field is None else field.contents()

    def config(self) -> dict[str, Any]:
        """The settings as a Hugging Face `config.json` has them.

        Raises:
          GraftError: a setting is missing, or is there and not understood.
        """
        used: set[str] = set()

        def setting(name: str, default: Any = None) -> Any:
            key = f"{self.architecture}.{name}"
            used.add(key)
            value = self.value(key, default)
            if value is None:
                raise GraftError(f"{self.path}: metadata {key!r} is missing; fetch the file again")
            if isinstance(value, list):
                raise GraftError(f"{self.path}: {key!r} differs by layer, which is not supported")
            return _shortest(value)

        def size(name: str, default: int | None = None) -> int:
            if not isinstance(value := setting(name, default), int) or value < 1:
                raise GraftError(
                    f"{self.path}: {self.architecture}.{name} = {value!r} is no size; fetch the "
                    "file again"
                )
            return value

        width, heads = size("embedding_length"), size("attention.head_count")
        head_width = size("attention.key_length", width // heads)
        window = setting("attention.sliding_window", 0)
        for name, only in (
            ("attention.value_length", head_width),
            ("rope.dimension_count", head_width),
            ("rope.scaling.type", "none"),
            ("expert_count", 0),
        ):
            if (found := setting(name, only)) != only:
                raise GraftError(
                    f"{self.path}: {self.architecture}.{name} = {found!r} is not supported"
                )
        shapes = self.shapes()
        if _EMBED not in shapes:
            raise GraftError(f"{self.path}: holds no embedding; fetch the file again")
        family = "mistral" if self.architecture == "llama" and window else self.architecture
        config = {
            "architectures": [_CLASSES[family]],
            "model_type": family,
            "vocab_size": shapes[_EMBED][0],
            "hidden_size": width,
            "intermediate_size": size("feed_forward_length"),
            "num_hidden_layers": size("block_count"),
            "num_attention_heads": heads,
            "num_key_value_heads": size("attention.head_count_kv", heads),
            "head_dim": head_width,
            "hidden_act": "silu",
            "max_position_embeddings": size("context_length"),
            "rms_norm_eps": setting("attention.layer_norm_rms_epsilon"),
            "rope_theta": setting("rope.freq_base", 10_000.0),
            "tie_word_embeddings": "lm_head.weight" not in shapes,
        }
        if window:
            config |= {"sliding_window": window, "use_sliding_window": True}
        for name in ("bos", "eos"):
            config[f"{name}_token_id"] = self.value(f"tokenizer.ggml.{name}_token_id")
        config["pad_token_id"] = self.value("tokenizer.ggml.padding_token_id")
        setting("vocab_size", 0)
        unknown = sorted(
            key
            for key in self._reader.fields
            if key.startswith(f"{self.architecture}.") and key not in used
        )
        if unknown:
            raise GraftError(
                f"{self.path}: setting {unknown[0]!r} is not understood and might change the "
                "result; use the backbone's Hugging Face folder"
            )
        return config

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Hugging Face's tensor name -> shape, in the file's order.

        Raises:
          GraftError: a tensor that this code does not know.
        """
        return {
            self._hugging_face_name(tensor.name): tuple(int(n) for n in reversed(tensor.shape))
            for tensor in self._reader.tensors
        }

    def tensors(self) -> Iterator[tuple[str, np.ndarray]]:
        """Yields (name, float32 array [out, in]), dequantised, names and rows as in Hugging Face.

        Raises:
          GraftError: a tensor that this code does not know or whose quantisation cannot be undone.
        """
        heads = self.value(f"{self.architecture}.attention.head_count")
        kv_heads = self.value(f"{self.architecture}.attention.head_count_kv", heads)
        for tensor in self._reader.tensors:
            name = self._hugging_face_name(tensor.name)
            try:
                array = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
                if self.architecture == "llama" and name.endswith("q_proj.weight"):
                    array = _unpermuted(array, heads)
                if self.architecture == "llama" and name.endswith("k_proj.weight"):
                    array = _unpermuted(array, kv_heads)
            except (NotImplementedError, ValueError) as error:
                raise GraftError(
                    f"{self.path}: tensor {tensor.name!r} ({tensor.tensor_type.name}) cannot be "
                    f"dequantised ({error}); choose a file of another quantisation"
                ) from error
            yield name, array

    def _hugging_face_name(self, name: str) -> str:
        if name in _GLOBAL_NAMES:
            return _GLOBAL_NAMES[name]
        prefix, _, rest = name.partition(".")
        layer, _, leaf = rest.partition(".")
        if prefix == "blk" and leaf in _LAYER_NAMES:
            return f"model.layers.{layer}.{_LAYER_NAMES[leaf]}"
        raise GraftError(
            f"{self.path}: tensor {name!r} is not understood and might change the result; "
            "use the backbone's Hugging Face folder"
        )


def _unpermuted(rows: np.ndarray, heads: int) -> np.ndarray:
    """Undoes llama.cpp's order of the rows of q and k [heads * H, D].

    llama.cpp rotates neighbouring pairs (2i, 2i + 1) of a head, Hugging Face (i, i + H/2).
    """
    out, width = rows.shape
    pairs = rows.reshape(heads, out // heads // 2, 2, width)
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(out, width)


def _shortest(value: Any) -> Any:
    """A float32 that went through float64 as its shortest decimal: 9.99999974e-06 -> 1e-05."""
    return float(str(np.float32(value))) if isinstance(value, float) else value
