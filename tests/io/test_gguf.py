"""A GGUF file gives the weights, settings and tokenizer that a Hugging Face folder would have."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Quantised

from graft_jax.errors import GraftError
from graft_jax.io.gguf import GgufFile
from graft_jax.io.gguf_tokenizer import tokenizer_config_of, tokenizer_of
from graft_jax.models.spec import ModelSpec


@pytest.mark.parametrize(
    "kind", [Quantised.F32, Quantised.F16, Quantised.BF16, Quantised.Q8_0, Quantised.Q4_1]
)
def test_llama_weights_are_the_unpermuted_originals(write_gguf: Any, kind: Quantised) -> None:
    path, wanted = write_gguf(kind=kind)
    found = dict(GgufFile(path).tensors())
    assert found.keys() == wanted.keys()
    for name, array in found.items():
        assert array.dtype == np.float32
        np.testing.assert_array_equal(array, wanted[name], err_msg=name)
    assert GgufFile(path).shapes() == {name: array.shape for name, array in wanted.items()}


def test_qwen_weights_come_as_they_are(write_gguf: Any) -> None:
    path, wanted = write_gguf("qwen2")
    found = dict(GgufFile(path).tensors())
    assert found.keys() == wanted.keys()
    assert "model.layers.1.self_attn.q_proj.bias" in found
    for name, array in found.items():
        np.testing.assert_array_equal(array, wanted[name], err_msg=name)


def test_the_config_gives_the_spec(write_gguf: Any) -> None:
    path, wanted = write_gguf()
    spec = ModelSpec.from_config(GgufFile(path).config())
    assert spec == ModelSpec(
        family="llama",
        vocab_size=len(wanted["model.embed_tokens.weight"]),
        width=64,
        layers=2,
        heads=4,
        kv_heads=2,
        head_width=16,
        ff_width=96,
        rope_base=100_000.0,
        eps=1e-5,
        tied=True,
        eos_ids=(2,),
        max_positions=128,
    )


def test_a_window_makes_it_mistral_and_biases_qwen(write_gguf: Any) -> None:
    path, _ = write_gguf(more={"llama.attention.sliding_window": 32})
    spec = ModelSpec.from_config(GgufFile(path).config())
    assert (spec.family, spec.sliding_window) == ("mistral", 32)
    path, _ = write_gguf("qwen2")
    assert ModelSpec.from_config(GgufFile(path).config()).qkv_bias


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"llama.expert_count": 8}, "expert_count"),
        ({"llama.rope.scaling.type": "yarn"}, "rope.scaling.type"),
        ({"llama.rope.dimension_count": 8}, "rope.dimension_count"),
        ({"llama.some_new_setting": 1}, "some_new_setting"),
        ({"llama.attention.key_length": [16, 32]}, "differs by layer"),
    ],
)
def test_settings_that_are_not_computed_are_refused(
    write_gguf: Any, more: dict[str, Any], words: str
) -> None:
    path, _ = write_gguf(more=more)
    with pytest.raises(GraftError, match=words):
        GgufFile(path).config()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("llama.attention.head_count", 0),
        ("llama.attention.head_count_kv", "2"),
        ("llama.embedding_length", 0),
        ("llama.block_count", "two"),
        ("tokenizer.ggml.eos_token_id", 10_000),
        ("tokenizer.ggml.tokens", "a"),
        ("tokenizer.ggml.token_type", [1, 1]),
        ("tokenizer.ggml.merges", ["ab"]),
        ("tokenizer.ggml.merges", ["never seen"]),
    ],
)
def test_metadata_of_a_wrong_kind_or_size_is_named(
    write_gguf: Any, monkeypatch: pytest.MonkeyPatch, key: str, value: Any
) -> None:
    file = GgufFile(write_gguf()[0])
    read = GgufFile.value
    monkeypatch.setattr(
        GgufFile, "value", lambda self, k, *more: value if k == key else read(self, k, *more)
    )
    with pytest.raises(GraftError, match=r"tiny\.gguf: .*fetch the file again"):  # noqa: PT012
        file.config()
        tokenizer_of(file)
        tokenizer_config_of(file)


def test_other_architectures_and_tensors_are_refused_by_name(write_gguf: Any) -> None:
    path, _ = write_gguf("gemma2")
    with pytest.raises(GraftError, match="'gemma2'"):
        GgufFile(path)
    for name in ("rope_freqs.weight", "blk.0.ffn_gate_inp.weight"):
        path, _ = write_gguf(extra_tensor=name)
        with pytest.raises(GraftError, match=name):
            dict(GgufFile(path).tensors())


@pytest.mark.parametrize("share", [0.0, 0.001, 0.05, 0.3, 0.9, 0.999])
def test_a_file_cut_short_is_named(write_gguf: Any, share: float) -> None:
    path, _ = write_gguf()
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(GraftError, match=r"tiny\.gguf.*fetch it again"):
        GgufFile(path)


def test_a_file_of_another_kind_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(b"PK" * 1000)
    for name in ("a.gguf", "nowhere.gguf"):
        with pytest.raises(GraftError, match=name):
            GgufFile(tmp_path / name)


def test_the_tokenizer_has_the_files_ids_and_no_padding_entries(write_gguf: Any) -> None:
    path, wanted = write_gguf()
    tokenizer = tokenizer_of(GgufFile(path))
    assert tokenizer.get_vocab_size() == len(wanted["model.embed_tokens.weight"]) - 2
    encoded = tokenizer.encode("<|im_start|>Turn 123 lights<|im_end|>")
    assert (encoded.ids[0], encoded.ids[-1]) == (1, 2)
    assert {"1", "2", "3"} <= set(encoded.tokens)
    text = "Größe 2 × 30 — 東京 😀\n\t<x>  y"
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


@pytest.mark.parametrize(
    ("pre", "digits"),
    [("smollm", list("12345")), ("qwen2", list("12345")), ("llama-bpe", ["123", "45"])],
)
def test_digits_are_split_as_the_family_splits_them(
    write_gguf: Any, pre: str, digits: list[str]
) -> None:
    path, _ = write_gguf(pre=pre)
    pre_tokenizer: Any = tokenizer_of(GgufFile(path)).pre_tokenizer
    pieces = [piece for piece, _ in pre_tokenizer.pre_tokenize_str("it's 12345, so")]
    assert [p for p in pieces if p[-1].isdigit()] == digits
    assert "".join(pieces).replace("Ġ", " ") == "it's 12345, so"


def test_other_tokenizers_are_refused_by_name(write_gguf: Any) -> None:
    path, _ = write_gguf(pre="tekken")
    with pytest.raises(GraftError, match="'tekken'"):
        tokenizer_of(GgufFile(path))
    path, _ = write_gguf(model="llama")
    with pytest.raises(GraftError, match="not byte-level BPE"):
        tokenizer_of(GgufFile(path))


def test_the_tokenizers_config(write_gguf: Any) -> None:
    path, _ = write_gguf(more={"tokenizer.ggml.unknown_token_id": 0})
    config = tokenizer_config_of(GgufFile(path))
    assert (config["eos_token"], config["unk_token"]) == ("<|im_end|>", "<|endoftext|>")
    assert "bos_token" not in config
    assert config["chat_template"] == "{{ messages[0].content }}"
