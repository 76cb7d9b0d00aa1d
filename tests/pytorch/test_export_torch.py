"""transformers on PyTorch loads an exported planner: the same ids, logits and plans."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from made_planners import KINDS, write_planner

from graft_jax.io.export import EXAMPLE, GRAFT, export
from graft_jax.io.files import read_json
from graft_jax.io.huggingface import load_base, read_spec
from graft_jax.io.planner_folder import load_planner_folder
from graft_jax.models.passes import sequence_pass, with_adapter
from graft_jax.models.tool_tokens import full_logits
from graft_jax.planner import load, plan

pytestmark = pytest.mark.torch

QUERIES = (
    "Find a train to Oslo.",
    "Wake me at six, then play some music and write to Ann!",
    "7",
    "Łódź? 🎶",
    "What does the weather in Lima look like, and is there a seat on tomorrow's train?",
)


@pytest.fixture(scope="module", params=[23, 612])
def tools(request: pytest.FixtureRequest) -> int:
    return request.param


@pytest.fixture(scope="module", params=list(KINDS))
def exported(
    request: pytest.FixtureRequest, tools: int, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path]:
    """A planner's folder and that of its export."""
    folder = tmp_path_factory.mktemp("export")
    planner = write_planner(folder, request.param, tools)
    export(planner, "hf", folder / "out", dtype="float32", shard_bytes=50_000)
    return planner, folder / "out"


@pytest.fixture(scope="module")
def reloaded(exported: tuple[Path, Path]) -> tuple[Any, Any, dict[str, Any]]:
    """(model, tokenizer, graft.json) as transformers has them."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    _, folder = exported
    model = AutoModelForCausalLM.from_pretrained(folder, dtype="float32").eval()
    return model, AutoTokenizer.from_pretrained(folder), read_json(folder / GRAFT)


def test_the_tokenizer_has_the_tools_at_their_ids(reloaded: tuple[Any, Any, Any]) -> None:
    model, tokenizer, about = reloaded
    ids = [tool["id"] for tool in about["tools"]]
    assert ids == list(range(tiny.WORDS, tiny.WORDS + len(ids)))
    assert len(tokenizer) == ids[-1] + 1 <= model.get_input_embeddings().num_embeddings
    assert [tokenizer.decode([i], skip_special_tokens=True) for i in ids] == [
        tool["token"] for tool in about["tools"]
    ]
    example = about["example"]
    query = tokenizer(example["query"], add_special_tokens=False).input_ids
    assert example["ids"] == [
        *about["prompt"]["before_query"],
        *query,
        *about["prompt"]["after_query"],
    ]


def test_tied_rows_are_one_matrix_and_untied_ones_two(
    exported: tuple[Path, Path], reloaded: tuple[Any, Any, Any]
) -> None:
    model, _, _ = reloaded
    rows, head = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    assert (rows.data_ptr() == head.data_ptr()) == read_spec(exported[1]).tied


def test_logits_are_the_planners(
    exported: tuple[Path, Path], reloaded: tuple[Any, Any, Any]
) -> None:
    import torch

    model, _, about = reloaded
    stored = load_planner_folder(exported[0])
    spec = read_spec(stored.backbone)
    count = len(about["tools"])
    entries = np.random.default_rng(0).permutation(tiny.WORDS + count)[:240].reshape(4, 60)
    with torch.no_grad():
        after = model(torch.as_tensor(entries)).logits.numpy()

    tokens = np.where(entries < tiny.WORDS, entries, entries - tiny.WORDS + spec.vocab_size)
    params = with_adapter(load_base(stored.backbone, spec, jnp.float32), stored.adapter)
    hidden, _ = sequence_pass(
        params,
        spec,
        jnp.asarray(tokens),
        jnp.broadcast_to(jnp.arange(60), tokens.shape),
        jnp.ones(tokens.shape, jnp.int32),
    )
    valid = jnp.arange(params.tools.embed.shape[0]) < count
    before = full_logits(params.base, params.tools, hidden, tiny.WORDS, valid)
    real = [*range(tiny.WORDS), *range(spec.vocab_size, spec.vocab_size + count)]
    np.testing.assert_allclose(
        after[..., : len(real)], np.asarray(before)[..., real], rtol=0, atol=1e-4
    )
    assert not after[..., len(real) :].any()


def generate(reloaded: tuple[Any, Any, Any], query: str, allowed: Callable[..., Any]) -> list[int]:
    """Ids that `generate` answers with, by the folder's own generation settings."""
    import torch

    model, tokenizer, about = reloaded
    text = tokenizer(query, add_special_tokens=False).input_ids
    ids = torch.tensor([about["prompt"]["before_query"] + text + about["prompt"]["after_query"]])
    answer = model.generate(
        ids, attention_mask=torch.ones_like(ids), prefix_allowed_tokens_fn=allowed
    )
    return answer[0, ids.shape[1] :].tolist()


def test_greedy_plans_are_the_planners(
    exported: tuple[Path, Path], reloaded: tuple[Any, Any, Any]
) -> None:
    about = reloaded[2]
    name = {tool["id"]: tool["name"] for tool in about["tools"]}
    ours = plan(load(exported[0], dtype="float32"), list(QUERIES), constrain="tools")
    for found, query in zip(ours, QUERIES, strict=True):
        answer = generate(reloaded, query, lambda *_: about["allowed_ids"])
        assert [name[i] for i in answer if i in name] == list(found.tools)
        assert set(answer) <= set(about["allowed_ids"])
    assert len({found.tools for found in ours}) > 1


def test_padding_rows_are_never_generated(reloaded: tuple[Any, Any, Any]) -> None:
    model, _, about = reloaded
    padding = set(range(about["tools"][-1]["id"] + 1, model.config.vocab_size))
    assert padding
    # Even where nothing else is allowed but one word, whose logit is below the padding's zero.
    for word in range(50, 54):
        answer = generate(reloaded, QUERIES[0], lambda *_, w=word: [w, *padding])
        assert not padding & set(answer)


def test_the_readme_of_the_folder_plans(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    planner, folder = write_planner(tmp_path, "qwen2, tied", 23), tmp_path / "out"
    export(planner, "hf", folder)
    [code] = re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text("utf-8"), re.S)
    monkeypatch.chdir(folder)
    exec(code, {})
    printed = json.loads(capsys.readouterr().out.strip().splitlines()[-1].replace("'", '"'))
    assert printed == list(plan(load(planner, dtype="float32"), EXAMPLE, constrain="tools").tools)
