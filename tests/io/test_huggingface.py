"""The base holds exactly the folder's weights; a folder that is not whole is refused by name."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from graft_jax.errors import GraftError
from graft_jax.io.huggingface import content_hash, leaves, load_base, read_spec
from graft_jax.models.spec import RopeScaling

MakeBackbone = Callable[..., Path]


def _change_weights(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def _leaf(base: Any, path: tuple[str | int, ...]) -> np.ndarray:
    for key in path:
        base = base[key]
    return np.asarray(base)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"tie_word_embeddings": False, "head_dim": 8},
        {"model_type": "qwen2"},
        {"model_type": "qwen3", "head_dim": 6},
    ],
)
def test_every_weight_is_loaded_in_its_place(make_backbone: MakeBackbone, changes: Any) -> None:
    folder = make_backbone(**changes)
    spec = read_spec(folder)
    base = load_base(folder, spec, jnp.float32)
    tensors = load_file(folder / "model.safetensors")
    assert len(jax.tree.leaves(base)) == len(tensors) == len(leaves(spec))
    for leaf in leaves(spec):
        wanted = tensors[leaf.name].T if leaf.transposed else tensors[leaf.name]
        np.testing.assert_array_equal(_leaf(base, leaf.path), wanted)


@pytest.mark.parametrize("stored", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float32])
def test_dtypes(make_backbone: MakeBackbone, stored: Any, dtype: Any) -> None:
    folder = make_backbone(dtype=stored)
    base = load_base(folder, read_spec(folder), dtype)
    kept = load_file(folder / "model.safetensors") if stored == np.float32 else None
    assert base["embed"].dtype == base["layers"][1]["down"].dtype == dtype
    assert base["final_norm"].dtype == base["layers"][0]["attn_norm"].dtype == jnp.float32
    if kept:
        wanted = kept["model.layers.1.mlp.down_proj.weight"].T.astype(dtype)
        np.testing.assert_array_equal(np.asarray(base["layers"][1]["down"]), wanted)


def test_shards_give_the_same_base(make_backbone: MakeBackbone) -> None:
    folder = make_backbone()
    whole = load_base(folder, read_spec(folder))
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    shards = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    parts: list[dict[str, np.ndarray]] = [{}, {}]
    for i, name in enumerate(sorted(tensors)):
        parts[i % 2][name] = tensors[name]
    for shard, part in zip(shards, parts, strict=True):
        save_file(part, folder / shard)
    places = {name: shards[i] for i, part in enumerate(parts) for name in part}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    assert jax.tree.all(jax.tree.map(np.array_equal, whole, load_base(folder, read_spec(folder))))
    (folder / shards[1]).unlink()
    with pytest.raises(GraftError, match=f"{shards[1]}: no such file"):
        load_base(folder, read_spec(folder))


def test_leaves_can_be_given_a_sharding(make_backbone: MakeBackbone) -> None:
    folder = make_backbone()
    spec = read_spec(folder)
    asked = {}

    def sharding_of(path: Any, shape: tuple[int, ...]) -> jax.sharding.Sharding:
        asked[path] = shape
        mesh = jax.make_mesh((1,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
        return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))

    sharded, plain = load_base(folder, spec, sharding_of=sharding_of), load_base(folder, spec)
    assert jax.tree.all(jax.tree.map(np.array_equal, plain, sharded))
    assert asked == {leaf.path: leaf.shape for leaf in leaves(spec)}
    assert isinstance(sharded["layers"][0]["q"].sharding, jax.sharding.NamedSharding)


def test_a_missing_tensor_is_named(make_backbone: MakeBackbone) -> None:
    folder = make_backbone()
    name = "model.layers.1.self_attn.k_proj.weight"
    _change_weights(folder, lambda tensors: tensors.pop(name))
    with pytest.raises(GraftError, match=name):
        load_base(folder, read_spec(folder))


def test_an_unknown_tensor_is_named_but_rotary_buffers_pass(make_backbone: MakeBackbone) -> None:
    folder = make_backbone()
    buffer = {"model.layers.0.self_attn.rotary_emb.inv_freq": np.ones(2, np.float32)}
    _change_weights(folder, lambda tensors: tensors.update(buffer))
    load_base(folder, read_spec(folder))
    gate = {"model.layers.0.mlp.experts.0.weight": np.ones(2, np.float32)}
    _change_weights(folder, lambda tensors: tensors.update(gate))
    with pytest.raises(GraftError, match=r"experts\.0\.weight"):
        load_base(folder, read_spec(folder))


def test_a_wrong_shape_is_named_with_both_sizes(make_backbone: MakeBackbone) -> None:
    folder = make_backbone()
    wrong = {"model.norm.weight": np.ones(17, np.float32)}
    _change_weights(folder, lambda tensors: tensors.update(wrong))
    with pytest.raises(GraftError, match=r"model\.norm\.weight is \[17\].*says \[16\]"):
        load_base(folder, read_spec(folder))


def test_an_integer_tensor_is_refused(make_backbone: MakeBackbone) -> None:
    folder = make_backbone()
    quantised = {"model.layers.0.mlp.up_proj.weight": np.ones((24, 16), np.int8)}
    _change_weights(folder, lambda tensors: tensors.update(quantised))
    with pytest.raises(GraftError, match=r"up_proj\.weight is I8"):
        load_base(folder, read_spec(folder))


@pytest.mark.parametrize("keep", [0, 5, 200, -1])
def test_a_file_cut_short_is_named(make_backbone: MakeBackbone, keep: int) -> None:
    folder = make_backbone()
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(GraftError, match=r"model\.safetensors.*fetch it again"):
        load_base(folder, read_spec(folder))


def test_a_tied_folder_may_hold_the_head_again_but_no_other(make_backbone: MakeBackbone) -> None:
    folder = make_backbone()
    embed = load_file(folder / "model.safetensors")["model.embed_tokens.weight"]
    _change_weights(folder, lambda tensors: tensors.update({"lm_head.weight": embed}))
    assert "head" not in load_base(folder, read_spec(folder))
    _change_weights(folder, lambda tensors: tensors.update({"lm_head.weight": embed + 1}))
    with pytest.raises(GraftError, match="tie_word_embeddings"):
        load_base(folder, read_spec(folder))


def test_missing_folders_and_files_are_named(make_backbone: MakeBackbone, tmp_path: Path) -> None:
    with pytest.raises(GraftError, match="nowhere"):
        read_spec(tmp_path / "nowhere")
    folder = make_backbone()
    spec = read_spec(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(GraftError, match=r"model\.safetensors: no such file"):
        load_base(folder, spec)
    (folder / "config.json").write_text("[]")
    with pytest.raises(GraftError, match=r"config\.json"):
        read_spec(folder)


@pytest.mark.parametrize("index", [[], None, {}, {"weight_map": []}, {"weight_map": {"a": 5}}])
def test_an_index_of_another_form_is_named(make_backbone: MakeBackbone, index: Any) -> None:
    folder = make_backbone()
    spec = read_spec(folder)
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(GraftError, match=r"index\.json: has no weight_map"):
        load_base(folder, spec)


LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8,
    "low_freq_factor": 1,
    "high_freq_factor": 4,
    "original_max_position_embeddings": 8192,
}
CONFIG = {
    "model_type": "llama",
    "vocab_size": 352,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 64,
    "eos_token_id": 2,
}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num_hidden_layers", "32"),
        ("hidden_size", 16.0),
        ("vocab_size", True),
        ("num_attention_heads", 0),
        ("num_attention_heads", 32),
        ("num_key_value_heads", 3),
        ("head_dim", 5),
        ("rms_norm_eps", float("nan")),
        ("rms_norm_eps", -1e-5),
        ("rope_theta", "10000"),
        ("rope_theta", 10**400),
        ("rope_scaling", "x"),
        ("rope_scaling", {"type": 5}),
        ("rope_scaling", {"rope_type": "yarn", "factor": 2.0}),
        *(("rope_scaling", {k: v for k, v in LLAMA3.items() if k != lost}) for lost in LLAMA3),
        ("rope_scaling", LLAMA3 | {"factor": "8"}),
        ("rope_parameters", {"rope_theta": 1e4, "partial_rotary_factor": 0.5}),
        ("layer_types", 5),
        ("layer_types", ["full_attention", "sliding_attention"]),
        ("layer_types", [["chunked_attention"]]),
        ("eos_token_id", "2"),
        ("eos_token_id", []),
        ("eos_token_id", [2, None]),
        ("bos_token_id", -1),
        ("tie_word_embeddings", "true"),
        ("sliding_window", "4096"),
        ("hidden_act", ["silu"]),
        ("model_type", ["llama"]),
        ("experts", 8),
    ],
)
def test_settings_of_a_wrong_kind_or_size_are_named(tmp_path: Path, key: str, value: Any) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | {key: value}))
    word = "rope" if "rope" in key else key
    with pytest.raises(GraftError, match=rf"config\.json: .*({word}|do not fit together)"):
        read_spec(tmp_path)


@pytest.mark.parametrize("lost", set(CONFIG) - {"model_type"})
def test_a_setting_that_is_missing_or_null_is_named(tmp_path: Path, lost: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | {lost: None}))
    with pytest.raises(GraftError, match=f"config.json: key '{lost}' is missing"):
        read_spec(tmp_path)


def test_both_spellings_of_llama_3s_rotary_scaling_are_read(tmp_path: Path) -> None:
    specs = []
    for change in (
        {"rope_scaling": LLAMA3, "rope_theta": 5e5},
        {"rope_parameters": LLAMA3 | {"rope_theta": 5e5}},
    ):
        (tmp_path / "config.json").write_text(json.dumps(CONFIG | change))
        specs.append(read_spec(tmp_path))
    assert specs[0] == specs[1]
    assert specs[0].rope_base == 5e5
    assert specs[0].rope_scaling == RopeScaling(8.0, 1.0, 4.0, 8192)


def test_the_hash_sees_content_and_nothing_else(make_backbone: MakeBackbone) -> None:
    folder = make_backbone()
    first = content_hash(folder)
    copy = shutil.copytree(folder, folder.with_name("copy"))
    config = json.loads((copy / "config.json").read_text())
    theta = config.pop("rope_theta")
    config |= {"rope_parameters": {"rope_type": "default", "rope_theta": theta}, "use_cache": True}
    (copy / "config.json").write_text(json.dumps(config))
    assert content_hash(copy) == first

    (copy / "config.json").write_text(json.dumps(config | {"rms_norm_eps": 1e-6}))
    assert content_hash(copy) != first
    (copy / "config.json").write_text(json.dumps(config))
    for name in ("model.safetensors", "tokenizer.json"):
        path = copy / name
        content = bytearray(path.read_bytes())
        content[-2] ^= 1
        path.write_bytes(content)
        assert content_hash(copy) != first
        shutil.copyfile(folder / name, path)
    assert content_hash(copy) == first
    (copy / "tokenizer.json").unlink()
    with pytest.raises(GraftError, match=r"tokenizer\.json"):
        content_hash(copy)
