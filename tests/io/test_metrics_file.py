"""metrics.jsonl is read whole or refused by the line."""

from pathlib import Path

import pytest

from graft_jax.errors import GraftError
from graft_jax.io.metrics_file import METRICS, read_metrics

LINE = '{"step": 1, "stage": "sft", "loss": 2.5}'


def test_a_last_line_that_was_cut_is_no_record(tmp_path: Path) -> None:
    path = tmp_path / METRICS
    assert read_metrics(path) == []
    path.write_text(f'{LINE}\n\n{LINE}\n{{"step": 2, "sta')
    assert read_metrics(path) == [{"step": 1, "stage": "sft", "loss": 2.5}] * 2


@pytest.mark.parametrize(
    "line",
    [
        b"not json",
        b"[]",
        b'{"a": 1}',
        b'{"step": "1", "stage": "sft"}',
        b'{"step": 1, "stage": null}',
        b'{"step": 1e400, "stage": "sft"}',
        b"[" * 100_000,
        b'{"step": ' + b"1" * 5000 + b"}",
    ],
)
def test_a_damaged_line_is_named(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / METRICS
    path.write_bytes(LINE.encode() + b"\n" + line + b"\n")
    with pytest.raises(GraftError, match=r"metrics\.jsonl, line 2: "):
        read_metrics(path)


def test_what_is_not_utf8_is_named(tmp_path: Path) -> None:
    path = tmp_path / METRICS
    path.write_bytes(LINE.encode() + b"\n\xff\n")
    with pytest.raises(GraftError, match=r"metrics\.jsonl: is not UTF-8"):
        read_metrics(path)
