"""The tokenizer of a GGUF file as Hugging Face's `tokenizer.json` and `tokenizer_config.json`.

Byte-level BPE only; knows nothing of the weights.
"""

from typing import Any

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
)

from graft_jax.errors import GraftError
from graft_jax.io.gguf import GgufFile

# Kinds of entries, as in llama.cpp's `llama_token_type`.
_CONTROL, _USER_DEFINED, _UNUSED = 3, 4, 5

# How llama-3 and Qwen split text before BPE: contractions, words, digits, the rest.
_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{digits}"
    r"| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def tokenizer_of(file: GgufFile) -> Tokenizer:
    """Builds the tokenizer; entry i of the file is id i, unused (padding) entries left out.

    Raises:
      GraftError: a tokenizer that is not byte-level BPE, or a pre-tokenizer of unknown kind.
    """
    model = file.value("tokenizer.ggml.model")
    kind = file.value("tokenizer.ggml.pre", "")
    if model != "gpt2":
        raise GraftError(
            f"{file.path}: tokenizer {model!r} is not byte-level BPE ('gpt2'); "
            "use the backbone's Hugging Face folder"
        )
    tokens, types = _list(file, "tokens", str), _list(file, "token_type", int)
    merges = [tuple(pair.split(" ")) for pair in _list(file, "merges", str)]
    kinds = zip(tokens, types, strict=False)
    entries = [(i, token) for i, (token, kind_of) in enumerate(kinds) if kind_of != _UNUSED]
    vocabulary = {token: i for i, token in entries}
    try:
        if len(types) != len(tokens) or len(vocabulary) != len(entries):
            raise ValueError("an entry twice, or without its kind")
        if any(len(pair) != 2 for pair in merges):
            raise ValueError("a merge that is no pair")
        tokenizer = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=kind == "llama-bpe"))
    except Exception as error:  # of merges, the library raises nothing more special
        raise GraftError(
            f"{file.path}: the tokenizer's entries are damaged ({error}); fetch the file again"
        ) from None
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(_pre_tokenizers(kind, file))
    if kind == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.decoder = decoders.ByteLevel()
    for special, wanted in ((True, _CONTROL), (False, _USER_DEFINED)):
        tokenizer.add_tokens(
            [
                AddedToken(token, special=special, normalized=False)
                for i, token in entries
                if types[i] == wanted
            ]
        )
    return tokenizer


def tokenizer_config_of(file: GgufFile) -> dict[str, Any]:
    """The content of `tokenizer_config.json`: special tokens and chat template.

    Raises:
      GraftError: the file names no end-of-sequence token or has no chat template.
    """
    tokens = _list(file, "tokens", str)
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "model_max_length": file.value(f"{file.architecture}.context_length"),
        "chat_template": file.value("tokenizer.chat_template"),
    }
    for name, key in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding")):
        index = file.value(f"tokenizer.ggml.{key}_token_id")
        if index is not None:
            if not isinstance(index, int) or not 0 <= index < len(tokens):
                raise GraftError(
                    f"{file.path}: {key}_token_id {index!r} is none of the {len(tokens)} entries; "
                    "fetch the file again"
                )
            config[f"{name}_token"] = tokens[index]
    for key in ("eos_token", "chat_template"):
        if not config.get(key):
            raise GraftError(f"{file.path}: has no {key}; choose an instruction-tuned backbone")
    return config


def _list(file: GgufFile, key: str, kind: type) -> list[Any]:
    values = file.value(f"tokenizer.ggml.{key}")
    if not isinstance(values, list) or not all(isinstance(value, kind) for value in values):
        raise GraftError(f"{file.path}: the tokenizer's {key} are damaged; fetch the file again")
    return values


def _pre_tokenizers(kind: str, file: GgufFile) -> list[Any]:
    if kind == "smollm":
        return [pre_tokenizers.Digits(individual_digits=True), _byte_level(use_regex=True)]
    if kind in ("gpt-2", "default"):
        return [_byte_level(use_regex=True)]
    if kind in ("llama-bpe", "qwen2"):
        digits = "{1,3}" if kind == "llama-bpe" else ""
        split = pre_tokenizers.Split(Regex(_SPLIT.format(digits=digits)), behavior="isolated")
        return [split, _byte_level(use_regex=False)]
    raise GraftError(
        f"{file.path}: pre-tokenizer {kind!r} is not supported (smollm, gpt-2, llama-bpe and qwen2 "
        "are); use the backbone's Hugging Face folder"
    )


def _byte_level(use_regex: bool) -> pre_tokenizers.ByteLevel:
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)
