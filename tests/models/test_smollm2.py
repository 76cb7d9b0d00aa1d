"""SmolLM2-135M's logits and first answer against those that transformers gave on PyTorch.

`tests/golden/make_smollm2_logits.py` made the reference.
"""

from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graft_jax.decoding.decode import decode_unconstrained
from graft_jax.decoding.masks import Index
from graft_jax.io.files import read_json
from graft_jax.io.huggingface import load_base, read_spec
from graft_jax.io.tokenizer import entries, load_tokenizer
from graft_jax.models.adapter import Params
from graft_jax.models.layers import matmul_rows
from graft_jax.models.passes import sequence_pass
from graft_jax.models.spec import ModelSpec
from graft_jax.models.tool_tokens import ToolRows

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "backbones" / "smollm2-135m"
CAPACITY = 32


class Loaded(NamedTuple):
    spec: ModelSpec
    params: Params
    golden: dict[str, np.ndarray]


@pytest.fixture(scope="module")
def loaded() -> Loaded:
    """The backbone in float32, without adapter and without tools."""
    if not (FOLDER / "config.json").is_file():
        pytest.fail(f"{FOLDER} is missing: `make backbone` fetches it", pytrace=False)
    with np.load(ROOT / "tests" / "golden" / "smollm2_logits.npz") as file:
        golden = dict(file)
    found = read_json(FOLDER / "backbone.json")["content_hash"]
    assert found == golden["content_hash"].item(), "another backbone than the reference's"
    spec = read_spec(FOLDER)
    rows = ToolRows(embed=jnp.zeros((CAPACITY, spec.width)), head=None)
    params = Params(base=load_base(FOLDER, spec, jnp.float32), lora=None, tools=rows)
    return Loaded(spec, params, golden)


def test_logits_equal_pytorchs(loaded: Loaded) -> None:
    spec, params, golden = loaded
    real = golden["mask"]

    @jax.jit
    def run(params: Params, tokens: jax.Array, segments: jax.Array) -> tuple[jax.Array, ...]:
        positions = jnp.broadcast_to(jnp.arange(tokens.shape[1]), tokens.shape)
        hidden, before = sequence_pass(params, spec, tokens, positions, segments)
        logits = matmul_rows(hidden, params.base["embed"])
        return logits, jax.nn.logsumexp(logits, axis=-1), before[..., :16]

    logits, total, before = map(np.asarray, run(params, golden["ids"], real.astype(np.int32)))
    best = np.take_along_axis(logits, golden["top_ids"], axis=-1)
    # Logits go up to 39, the residual stream up to 279: float32 over 30 layers.
    np.testing.assert_allclose(best[real], golden["top_logits"][real], atol=1e-3)
    np.testing.assert_allclose(total[real], golden["logsumexp"][real], atol=1e-3)
    np.testing.assert_allclose(before[real], golden["residual"][real], rtol=1e-4, atol=1e-3)
    assert (logits.argmax(-1) == golden["top_ids"][..., 0])[real].all()


def test_it_says_what_it_said_on_pytorch(loaded: Loaded) -> None:
    """Greedily and through the cache: "The capital of France is Paris."."""
    spec, params, golden = loaded
    tokenizer = load_tokenizer(FOLDER)
    nothing = Index(
        valid=jnp.zeros(CAPACITY // 32, jnp.uint32),
        successors=jnp.zeros((CAPACITY + 1, CAPACITY // 32), jnp.uint32),
    )
    lengths = golden["mask"][:1].sum(axis=1)
    words, most = entries(tokenizer), jnp.asarray(11)
    tokens, _ = decode_unconstrained(
        params, nothing, spec, golden["ids"][:1], lengths, most, words=words, steps=12
    )
    assert tokenizer.decode(tokens[0], skip_special_tokens=True) == golden["answer"].item()
