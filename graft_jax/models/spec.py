"""What a backbone is, in numbers: the static part of every jitted program.

Reads the `config.json` of a Hugging Face folder of the llama family. A key that would change the
result and is not understood is refused by name rather than ignored.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from graft_jax.errors import GraftError
from graft_jax.shapes import is_number, is_whole


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

    @classmethod
    def from_config(cls, config: Mapping[str, Any], where: str = "config.json") -> "ModelSpec":
        """Reads a Hugging Face `config.json` (llama, mistral, qwen2 or qwen3).

        Raises:
          GraftError: a family or a setting that this code does not compute, or a value that is
            missing or none that it can be, by name.
        """
        return _from_config(_Keys(config, where))


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
_NEEDED: Any = object()


class _Keys:
    """Takes values out of a config, each of the kind it must be; null is as good as missing."""

    def __init__(self, config: Mapping[str, Any], where: str) -> None:
        self.left = {key: value for key, value in config.items() if value is not None}
        self.where = where

    def error(self, message: str) -> GraftError:
        return GraftError(f"{self.where}: {message}")

    def take(self, key: str, kind: type, default: Any = _NEEDED) -> Any:
        """A text, a list, an object, or true or false."""
        wanted = {str: "a text", list: "a list", dict: "an object", bool: "true or false"}[kind]
        return self._take(key, default, wanted, lambda value: isinstance(value, kind))

    def whole(self, key: str, default: Any = _NEEDED, least: int = 1) -> Any:
        """An integer of at least `least`."""
        wanted = f"an integer of at least {least}"
        return self._take(key, default, wanted, lambda value: _is_index(value, least))

    def number(self, key: str, default: Any = _NEEDED) -> Any:
        """A finite number above 0."""
        return self._take(key, default, "a finite number above 0", _is_positive)

    def _take(self, key: str, default: Any, wanted: str, fits: Callable[[Any], bool]) -> Any:
        if key not in self.left:
            if default is _NEEDED:
                raise self.error(f"key {key!r} is missing; is this a language model's config?")
            return default
        value = self.left.pop(key)
        if not fits(value):
            raise self.error(f"{key} is {value!r:.60}, not {wanted}; fetch the file again")
        return value


def _is_index(value: Any, least: int) -> bool:
    return is_whole(value) and least <= value < 2**31


def _is_positive(value: Any) -> bool:
    return is_number(value) and value > 0


def _from_config(keys: _Keys) -> ModelSpec:
    family = keys.take("model_type", str)
    if family not in _FAMILIES:
        raise keys.error(
            f"model_type {family!r:.60} is not one of {', '.join(_FAMILIES)}; "
            "choose a backbone of one of these families"
        )
    width, heads = keys.whole("hidden_size"), keys.whole("num_attention_heads")
    kv_heads = keys.whole("num_key_value_heads", heads)
    head_width = keys.whole("head_dim", width // heads)
    if heads % kv_heads or head_width < 2 or head_width % 2:
        raise keys.error(
            f"{heads} query heads, {kv_heads} key/value heads and a head width of {head_width} do "
            "not fit together; fetch the file again"
        )
    window = keys.whole("sliding_window", None, least=0) or None
    if not keys.take("use_sliding_window", bool, family == "mistral"):
        window = None
    bias = keys.take("attention_bias", bool, family == "qwen2")
    if bias and family != "qwen2":
        raise keys.error(f"attention_bias is not supported for {family}")
    layer_types = {str(kind) for kind in keys.take("layer_types", list, [])}
    if len(layer_types) > 1 or not layer_types <= {"full_attention", "sliding_attention"}:
        raise keys.error(f"layer_types of {', '.join(sorted(layer_types))} are not supported")
    if layer_types == {"full_attention"}:
        window = None
    rope_base, rope_scaling = _rope(keys)
    spec = ModelSpec(
        family=family,
        vocab_size=keys.whole("vocab_size"),
        width=width,
        layers=keys.whole("num_hidden_layers"),
        heads=heads,
        kv_heads=kv_heads,
        head_width=head_width,
        ff_width=keys.whole("intermediate_size"),
        rope_base=rope_base,
        rope_scaling=rope_scaling,
        eps=keys.number("rms_norm_eps"),
        tied=keys.take("tie_word_embeddings", bool, False),
        eos_ids=_eos_ids(keys),
        bos_id=keys.whole("bos_token_id", None, least=0),
        max_positions=keys.whole("max_position_embeddings"),
        sliding_window=window,
        qkv_bias=bias,
        qk_norm=family == "qwen3",
    )
    if keys.take("hidden_act", str, "silu") != "silu":
        raise keys.error("hidden_act other than silu is not supported")
    if keys.take("mlp_bias", bool, False):
        raise keys.error("mlp_bias is not supported")
    _refuse_left(keys)
    return spec


def _eos_ids(keys: _Keys) -> tuple[int, ...]:
    """One id, or a list of them."""
    if not isinstance(keys.left.get("eos_token_id"), list):
        return (keys.whole("eos_token_id", least=0),)
    ids = keys.take("eos_token_id", list)
    if not ids or not all(_is_index(value, 0) for value in ids):
        raise keys.error(f"eos_token_id is {ids!r:.60}, not a list of ids; fetch the file again")
    return tuple(ids)


def _rope(keys: _Keys) -> tuple[float, RopeScaling | None]:
    """Both spellings: `rope_theta` + `rope_scaling` (transformers 4), `rope_parameters` (5)."""
    parameters, scaling = (
        keys.take("rope_parameters", dict, {}),
        keys.take("rope_scaling", dict, {}),
    )
    own = _Keys(parameters | scaling, f"{keys.where}: rope_scaling")
    base = float(keys.number("rope_theta", own.number("rope_theta", 10_000.0)))
    kind = own.take("type", str, "default")
    kind = own.take("rope_type", str, kind)
    if kind not in ("default", "llama3"):
        raise keys.error(f"rope type {kind!r:.60} is not supported (default and llama3 are)")
    rope_scaling = None
    if kind == "llama3":
        rope_scaling = RopeScaling(
            factor=float(own.number("factor")),
            low_freq_factor=float(own.number("low_freq_factor")),
            high_freq_factor=float(own.number("high_freq_factor")),
            original_max_positions=own.whole("original_max_position_embeddings"),
        )
    _refuse_left(own)
    return base, rope_scaling


def _refuse_left(keys: _Keys) -> None:
    unknown = sorted(k for k, v in keys.left.items() if k not in _IGNORED and v not in (0, False))
    if unknown:
        raise keys.error(
            f"key {unknown[0]!r} is not understood and might change the result; "
            "use a backbone without it"
        )
