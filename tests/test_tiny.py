"""The tests' own tiny backbone and data are what the library itself reads and accepts."""

from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
import tiny

from graft_jax.catalog.catalog import load_catalog
from graft_jax.data.examples import CATALOG_FILE, load_splits
from graft_jax.io.huggingface import load_base, read_spec
from graft_jax.io.tokenizer import ending_plans, entries, load_tokenizer


def test_the_backbone_is_read_as_it_was_made(
    tiny_backbone: Path, tiny_spec, tiny_base: Callable[..., dict]
) -> None:
    assert read_spec(tiny_backbone) == tiny_spec
    read = load_base(tiny_backbone, tiny_spec, np.float32)
    jax.tree.map(np.testing.assert_array_equal, read, tiny_base())


def test_the_tokenizer_has_a_token_a_byte(tiny_backbone: Path) -> None:
    tokenizer = load_tokenizer(tiny_backbone)
    assert ending_plans(tiny.make_spec(), tokenizer).end_id == tiny.EOS
    assert entries(tokenizer) == tiny.WORDS
    assert tokenizer.decode(tokenizer.encode("Łódź 12")) == "Łódź 12"


def test_the_data_has_plans_of_one_to_four_tools(tiny_data: Path) -> None:
    catalog = load_catalog(tiny_data / CATALOG_FILE)
    splits = load_splits(tiny_data, catalog)
    assert {name: len(rows) for name, rows in splits.items()} == {
        "train": 24,
        "validation": 6,
        "test": 6,
    }
    assert {len(row.tools) for row in splits["train"]} == {1, 2, 3, 4}
    assert all(row.aligned and catalog.is_legal(row.tools) for row in splits["train"])


def test_there_are_four_devices() -> None:
    assert jax.device_count() == 4
