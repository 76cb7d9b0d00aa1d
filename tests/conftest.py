"""What all tests share: four virtual CPU devices, and a tiny planner's backbone and data."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Tolerances are the CPU's; say JAX_PLATFORMS to run on something else.
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import pytest
import tiny

from graft_jax.models.spec import ModelSpec

# Read when JAX first asks for its devices. Code that shards nothing stays on the first one.
jax.config.update("jax_num_cpu_devices", 4)
# Nearly all of the tests' time is compilation. This halves it and changes no arithmetic.
jax.config.update("jax_disable_most_optimizations", True)
# A base that a program closes over becomes constants in it: gigabytes, with a real backbone.
jax.config.update("jax_captured_constants_warn_bytes", 30_000)


@pytest.fixture(scope="session")
def tiny_spec() -> ModelSpec:
    """A llama of three layers, tied; `tiny.make_spec(tied=False)` is the other kind."""
    return tiny.make_spec()


@pytest.fixture(scope="session")
def tiny_base(tiny_spec: ModelSpec) -> Callable[..., dict[str, Any]]:
    """(dtype) -> the random base of `tiny_spec`, the one that `tiny_backbone` holds."""

    def make(dtype: Any = jnp.float32) -> dict[str, Any]:
        return tiny.make_base(tiny_spec, dtype)

    return make


@pytest.fixture(scope="session")
def tiny_backbone(tmp_path_factory: pytest.TempPathFactory, tiny_spec: ModelSpec) -> Path:
    """A complete Hugging Face folder: config, float32 weights, tokenizer, ChatML template."""
    return tiny.write_backbone(tmp_path_factory.mktemp("backbone") / "tiny", tiny_spec)


@pytest.fixture(scope="session")
def tiny_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder of six tools and 24 + 6 + 6 examples; read only, copy it before a change."""
    return tiny.write_data(tmp_path_factory.mktemp("data") / "tiny")
