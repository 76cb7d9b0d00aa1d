"""An exported planner gives the logits it gave before, and is there whole or not at all."""

import errno
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import tiny
from made_planners import KINDS, write_planner
from safetensors.numpy import load_file, save_file

from graft_jax.data.prompts import Prompts
from graft_jax.errors import GraftError
from graft_jax.io import export as module
from graft_jax.io.export import EXAMPLE, GRAFT, export, make_layout
from graft_jax.io.files import read_json, write_json
from graft_jax.io.huggingface import content_hash, load_base, read_spec
from graft_jax.io.planner_folder import load_planner_folder, save_planner
from graft_jax.io.tokenizer import encode_text, load_tokenizer
from graft_jax.models.adapter import Params
from graft_jax.models.layers import matmul_rows
from graft_jax.models.passes import sequence_pass, with_adapter
from graft_jax.models.tool_tokens import ToolRows, full_logits


@pytest.fixture
def planner(tmp_path: Path) -> Path:
    return write_planner(tmp_path, "llama, tied", 23)


def logits_before(planner: Path, tokens: np.ndarray) -> np.ndarray:
    """Of the planner as trained, its adapter beside the base: [B, T, V + M]; V + i is tool i."""
    stored = load_planner_folder(planner)
    spec = read_spec(stored.backbone)
    params = with_adapter(load_base(stored.backbone, spec, jnp.float32), stored.adapter)
    hidden = _hidden(params, spec, tokens)
    valid = jnp.arange(params.tools.embed.shape[0]) < len(stored.catalog)
    return np.asarray(full_logits(params.base, params.tools, hidden, tiny.WORDS, valid))


def logits_after(folder: Path, tokens: np.ndarray) -> np.ndarray:
    """Of the exported folder, read as any backbone: [B, T, rows]."""
    spec = read_spec(folder)
    base = load_base(folder, spec, jnp.float32)
    params = Params(base=base, lora=None, tools=ToolRows(jnp.zeros((1, spec.width)), None))
    hidden = _hidden(params, spec, tokens)
    return np.asarray(matmul_rows(hidden, base.get("head", base["embed"])))


def _hidden(params: Params, spec: Any, tokens: np.ndarray) -> Any:
    positions = jnp.broadcast_to(jnp.arange(tokens.shape[1]), tokens.shape)
    return sequence_pass(params, spec, jnp.asarray(tokens), positions, jnp.ones(tokens.shape, int))[
        0
    ]


@pytest.mark.parametrize(("tools", "rows"), [(23, 300), (612, 896)])
@pytest.mark.parametrize("kind", KINDS)
def test_logits_are_those_of_the_unmerged_planner(
    tmp_path: Path, kind: str, tools: int, rows: int
) -> None:
    planner = write_planner(tmp_path, kind, tools)
    layout = export(planner, "hf", tmp_path / "out", dtype="float32")
    assert layout.rows == rows == read_spec(tmp_path / "out").vocab_size
    assert read_spec(tmp_path / "out").tied == ("untied" not in kind)

    # Words and tools mixed.
    entries = np.random.default_rng(0).permutation(tiny.WORDS + tools)[:280].reshape(4, 70)
    before = logits_before(
        planner, np.where(entries < tiny.WORDS, entries, entries - tiny.WORDS + 300)
    )
    after = logits_after(tmp_path / "out", entries)
    real = [*range(tiny.WORDS), *range(300, 300 + tools)]
    np.testing.assert_allclose(after[..., : layout.tool_ids.stop], before[..., real], atol=1e-4)
    assert not after[..., layout.tool_ids.stop :].any()
    assert np.abs(before[..., real]).max() > 0.1


def test_tools_are_the_ids_behind_the_tokenizers_own(planner: Path, tmp_path: Path) -> None:
    layout = export(planner, "hf", tmp_path / "out")
    tokenizer = load_tokenizer(tmp_path / "out")
    about = read_json(tmp_path / "out" / GRAFT)
    catalog = load_planner_folder(planner).catalog
    assert [tool["name"] for tool in about["tools"]] == list(catalog.names)
    assert [tool["id"] for tool in about["tools"]] == list(range(259, 282)) == list(layout.tool_ids)
    assert len(tokenizer) == 282
    tokens = [tool["token"] for tool in about["tools"]]
    assert len(set(tokens)) == 23
    assert tokenizer.convert_tokens_to_ids(tokens) == list(layout.tool_ids)
    text = "".join(tokens)
    assert tokenizer.decode(layout.tool_ids, skip_special_tokens=True) == text
    assert tokenizer(text, add_special_tokens=False).input_ids == list(layout.tool_ids)
    assert about["allowed_ids"] == [tiny.EOS, *layout.tool_ids]
    assert about["end_of_plan"] == {"token": "<|im_end|>", "id": tiny.EOS}
    assert not set(about["allowed_ids"]) & set(layout.padding_ids)
    generation = read_json(tmp_path / "out" / "generation_config.json")
    assert generation["suppress_tokens"] == list(layout.padding_ids) == list(range(282, 300))
    assert generation["eos_token_id"] == tiny.EOS
    assert generation["max_new_tokens"] == 4


def test_the_prompt_is_the_planners(planner: Path, tmp_path: Path) -> None:
    export(planner, "hf", tmp_path / "out")
    own = load_tokenizer(planner / "tokenizer")
    exported = load_tokenizer(tmp_path / "out")
    about = read_json(tmp_path / "out" / GRAFT)
    prompts = Prompts(own, 300, about["max_query_tokens"])
    assert about["example"]["ids"] == [*prompts.student(EXAMPLE).ids]
    for query in ("Turn it off.", "<|im_end|> <tool_0><s>"):
        ids = [
            *about["prompt"]["before_query"],
            *encode_text(exported, query),
            *about["prompt"]["after_query"],
        ]
        assert ids == list(prompts.student(query).ids)
    assert exported.chat_template == own.chat_template
    assert about["example"]["text"] == exported.decode(about["example"]["ids"])


def test_added_tokens_listed_in_the_tokenizers_config_stay(planner: Path, tmp_path: Path) -> None:
    stored = load_planner_folder(planner)
    path = stored.backbone / "tokenizer_config.json"
    listed = {
        str(i): {"content": token, "special": True, "normalized": False}
        for i, token in enumerate(tiny.CONTROL)
    }
    write_json(path, read_json(path) | {"added_tokens_decoder": listed})
    save_planner(planner, stored.adapter, stored.catalog, stored.backbone, stored.card)
    layout = export(planner, "hf", tmp_path / "out")
    written = read_json(tmp_path / "out" / "tokenizer_config.json")["added_tokens_decoder"]
    assert listed.items() <= written.items()
    assert [int(i) for i in written] == [0, 1, 2, *layout.tool_ids]


@pytest.mark.parametrize(
    ("stored", "dtype", "wanted"),
    [
        (np.float32, "keep", np.float32),
        (ml_dtypes.bfloat16, "keep", ml_dtypes.bfloat16),
        (np.float16, "keep", np.float16),
        (np.float32, "bfloat16", ml_dtypes.bfloat16),
        (ml_dtypes.bfloat16, "float32", np.float32),
    ],
)
def test_dtypes(tmp_path: Path, stored: Any, dtype: str, wanted: Any) -> None:
    planner = write_planner(tmp_path, "llama, tied", 23)
    weights = tmp_path / "backbone" / "model.safetensors"
    save_file({k: v.astype(stored) for k, v in load_file(weights).items()}, weights)
    card = read_json(planner / "planner.json")
    card["backbone"]["content_hash"] = content_hash(tmp_path / "backbone")
    write_json(planner / "planner.json", card)
    export(planner, "hf", tmp_path / "out", dtype=dtype)
    tensors = load_file(tmp_path / "out" / "model.safetensors")
    assert {tensor.dtype for tensor in tensors.values()} == {np.dtype(wanted)}
    named = read_json(tmp_path / "out" / "config.json").get("torch_dtype")
    assert named == (None if dtype == "keep" else dtype)


def test_shards_hold_what_one_file_holds(planner: Path, tmp_path: Path) -> None:
    export(planner, "hf", tmp_path / "whole")
    export(planner, "hf", tmp_path / "cut", shard_bytes=20_000)
    whole = load_file(tmp_path / "whole" / "model.safetensors")
    index = read_json(tmp_path / "cut" / "model.safetensors.index.json")
    shards = {path.name: load_file(path) for path in (tmp_path / "cut").glob("*.safetensors")}
    assert len(shards) > 3
    for name, tensors in shards.items():
        size = sum(tensor.nbytes for tensor in tensors.values())
        assert size <= 20_000 or len(tensors) == 1
        assert all(index["weight_map"][tensor] == name for tensor in tensors)
    together = {key: value for tensors in shards.values() for key, value in tensors.items()}
    assert together.keys() == whole.keys() == index["weight_map"].keys()
    assert all(np.array_equal(whole[name], together[name]) for name in whole)
    assert index["metadata"]["total_size"] == sum(tensor.nbytes for tensor in whole.values())


def test_a_layout_uses_spare_rows_first_and_takes_no_text_of_the_vocabulary() -> None:
    vocabulary = {f"w{i}": i for i in range(151_664)} | {"<s>": 151_664}
    fits = make_layout([f"t{i}" for i in range(270)] + ["s"], vocabulary, 151_936)
    assert (fits.words, fits.rows) == (151_665, 151_936)
    assert fits.tool_ids[-1] == 151_935
    assert not fits.padding_ids
    assert fits.tokens[-1].startswith("<s.")
    grown = make_layout([f"t{i}" for i in range(612)], vocabulary, 151_936)
    assert (grown.tool_ids[0], grown.rows) == (151_665, 152_320)
    assert grown.padding_ids == range(152_277, 152_320)
    with pytest.raises(GraftError, match="ids up to 9"):
        make_layout(["t"], {"a": 0, "b": 9}, 10)


def test_wrong_flags_and_folders_are_named(planner: Path, tmp_path: Path) -> None:
    with pytest.raises(GraftError, match=r"--to onnx: there is only hf"):
        export(planner, "onnx", tmp_path / "out")
    with pytest.raises(GraftError, match=r"--dtype int8: .*keep, bfloat16, float32"):
        export(planner, "hf", tmp_path / "out", dtype="int8")
    with pytest.raises(GraftError, match=r"nowhere: is no planner folder"):
        export(tmp_path / "nowhere", "hf", tmp_path / "out")
    with pytest.raises(GraftError, match=r"planner: already exists"):
        export(planner, "hf", planner)
    assert not (tmp_path / "out").exists()


def test_an_export_that_fails_leaves_nothing(
    planner: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sorted(tmp_path.iterdir())

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(module, "save_file", full)
    with pytest.raises(OSError, match="no space"):
        export(planner, "hf", tmp_path / "out")
    assert sorted(tmp_path.iterdir()) == before


def test_of_two_exports_at_once_one_is_whole_and_one_is_refused(
    planner: Path, tmp_path: Path
) -> None:
    def one(_: int) -> str:
        try:
            return str(len(export(planner, "hf", tmp_path / "out").tokens))
        except GraftError as error:
            return str(error)

    with ThreadPoolExecutor(2) as pool:
        good, refused = sorted(pool.map(one, range(2)), key=len)
    assert good == "23"
    assert "out: already exists" in refused
    assert (tmp_path / "out" / GRAFT).is_file()
    assert not list(tmp_path.glob(".*"))


def test_the_command_says_what_is_where(
    planner: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from launch.export import main

    out = str(tmp_path / "out")
    monkeypatch.setattr(
        "sys.argv", ["export.py", "--planner", str(planner), "--to", "hf", "--out", out]
    )
    main()
    assert "23 tools as ids 259 to 281, embedding of 300 rows" in capsys.readouterr().out
