"""metrics.jsonl: what a run measured, one JSON object a line, each with its step and its stage.

Written by training, read by training that goes on and by the report.
"""

from pathlib import Path
from typing import Any, TypedDict

from graft_jax.errors import GraftError
from graft_jax.io.files import parse_json, read_text
from graft_jax.shapes import misfit

METRICS = "metrics.jsonl"


class _Record(TypedDict):
    step: int
    stage: str


def read_metrics(path: str | Path) -> list[dict[str, Any]]:
    """The records of a metrics file, none if there is no file; each has `step` (the global step)
    and `stage`.

    A last line without its end was cut by a kill and is no record.

    Raises:
      GraftError: a line is not JSON, or has no step or stage; the file cannot be read.
    """
    if not Path(path).exists():
        return []
    *lines, _ = read_text(path).split("\n")
    return [_record(line, f"{path}, line {n}") for n, line in enumerate(lines, 1) if line.strip()]


def _record(line: str, where: str) -> dict[str, Any]:
    record = parse_json(line, where)
    if odd := misfit(record, _Record):
        raise GraftError(f"{where}: {odd}; remove the line")
    return record
