"""What a backbone is, in numbers: the static part of every jitted program.

Reads the `config.json` of a Hugging Face folder of the llama family. A key that would change the
result and is not understood is refused by name rather than ignored.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from graft_jax.errors import GraftError


@dataclasses.dataclass(frozen=True)
class RopeScaling:
    """Llama-3's frequency scaling of rotary positions (`rope_type: llama3`)."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_positions: int


@dataclasses.dataclass(frozen=True)
class ModelSpec:
    """Sizes and constants of a decoder-only backbone. Hashable: the only static argument of a step.

    Letters are those of the axes: V rows of the embedding, D width, L layers, N query heads,
    K key/value heads, H head width, F feed-forward width.
    """

    family: str
    vocab_size: int  # V, rows of the embedding matrix, padding rows included
    width: int  # D
    layers: int  # L
    heads: int  # N
    kv_heads: int  # K
    head_width: int  # H
    ff_width: int  # F
    rope_base: float
    eps: float
    tied: bool
    eos_ids: tuple[int, ...]
    max_positions: int
    bos_id: int | None = None
    rope_scaling: RopeScaling | None = None
    sliding_window: int | None = None
    qkv_bias: bool = False
    qk_norm: bool = False

    @property
    def end_id(self) -> int:
        """The token that ends a plan."""
        return self.eos_ids[0]

    @property
    def linear_shapes(self) -> dict[str, tuple[int, int]]:
        """(in, out) of a layer's seven linear maps, by name."""
        d, f = self.width, self.ff_width
        q, kv = self.heads * self.head_width, self.kv_heads * self.head_width
        return {
            "q": (d, q),
            "k": (d, kv),
            "v": (d, kv),
            "o": (q, d),
            "gate": (d, f),
            "up": (d, f),
            "down": (f, d),
        }

    @property
    def linear_weights(self) -> int:
        """Weights of all layers' linear maps: what a token's forward pass multiplies with."""
        return self.layers * sum(math.prod(shape) for shape in self.linear_shapes.values())

    @classmethod
    def from_config(cls, config: Mapping[str, Any], where: str = "config.json") -> "ModelSpec":
        """Reads a Hugging Face `config.json` (llama, mistral, qwen2 or qwen3).

        Raises:
          GraftError: a family or a setting that this code does not compute, by name.
        """
        return _from_config(dict(config), where)


# Keys that say nothing about the forward pass.
_IGNORED = {
    "_name_or_path",
    "architectures",
    "attention_dropout",
    "auto_map",
    "dtype",
    "initializer_range",
    "is_llama_config",
    "max_window_layers",
    "pad_token_id",
    "pretraining_tp",
    "rope_interleaved",
    "sep_token_id",
    "torch_dtype",
    "transformers.js_config",
    "transformers_version",
    "unk_token_id",
    "use_cache",
}
_FAMILIES = ("llama", "mistral", "qwen2", "qwen3")


def _from_config(config: dict[str, Any], where: str) -> ModelSpec:
    def need(key: str) -> Any:
        if config.get(key) is None:
            raise GraftError(f"{where}: key {key!r} is missing; is this a language model's config?")
        return config.pop(key)

    family = need("model_type")
    if family not in _FAMILIES:
        raise GraftError(
            f"{where}: model_type {family!r} is not one of {', '.join(_FAMILIES)}; "
            "choose a backbone of one of these families"
        )
    qwen = family in ("qwen2", "qwen3")
    width, heads = need("hidden_size"), need("num_attention_heads")
    head_width = config.pop("head_dim", None) or width // heads
    eos = need("eos_token_id")
    window = config.pop("sliding_window", None)
    if not config.pop("use_sliding_window", family == "mistral"):
        window = None
    bias = config.pop("attention_bias", family == "qwen2")
    if bias and family != "qwen2":
        raise GraftError(f"{where}: attention_bias is not supported for {family}")
    layer_types = config.pop("layer_types", None)
    if layer_types and len(set(layer_types)) > 1:
        raise GraftError(f"{where}: layer_types mixes {sorted(set(layer_types))}; not supported")
    if layer_types and layer_types[0] == "full_attention":
        window = None
    rope_base, rope_scaling = _rope(config, where)
    spec = ModelSpec(
        family=family,
        vocab_size=need("vocab_size"),
        width=width,
        layers=need("num_hidden_layers"),
        heads=heads,
        kv_heads=config.pop("num_key_value_heads", None) or heads,
        head_width=head_width,
        ff_width=need("intermediate_size"),
        rope_base=rope_base,
        rope_scaling=rope_scaling,
        eps=need("rms_norm_eps"),
        tied=bool(config.pop("tie_word_embeddings", False)),
        eos_ids=tuple(eos) if isinstance(eos, list) else (eos,),
        bos_id=config.pop("bos_token_id", None),
        max_positions=need("max_position_embeddings"),
        sliding_window=window,
        qkv_bias=qwen and bias,
        qk_norm=family == "qwen3",
    )
    if config.pop("hidden_act", "silu") != "silu":
        raise GraftError(f"{where}: hidden_act other than silu is not supported")
    if config.pop("mlp_bias", False):
        raise GraftError(f"{where}: mlp_bias is not supported")
    unknown = sorted(k for k, v in config.items() if k not in _IGNORED and v not in (None, False))
    if unknown:
        raise GraftError(
            f"{where}: key {unknown[0]!r} is not understood and might change the result; "
            "use a backbone without it"
        )
    return spec


def _rope(config: dict[str, Any], where: str) -> tuple[float, RopeScaling | None]:
    """Both spellings: `rope_theta` + `rope_scaling` (transformers 4), `rope_parameters` (5)."""
    parameters = dict(config.pop("rope_parameters", None) or {})
    scaling = dict(config.pop("rope_scaling", None) or {}) or parameters
    base = config.pop("rope_theta", None) or parameters.pop("rope_theta", None)
    scaling.pop("rope_theta", None)
    kind = scaling.pop("rope_type", None) or scaling.pop("type", None) or "default"
    scaling.pop("type", None)
    if kind == "default":
        return float(base or 10_000.0), None
    if kind != "llama3":
        raise GraftError(f"{where}: rope type {kind!r} is not supported (default and llama3 are)")
    return float(base or 10_000.0), RopeScaling(
        factor=float(scaling["factor"]),
        low_freq_factor=float(scaling["low_freq_factor"]),
        high_freq_factor=float(scaling["high_freq_factor"]),
        original_max_positions=int(scaling["original_max_position_embeddings"]),
    )
