"""Score files: predictions, scores and where they come from, in one JSON file.

Full files lie in a run folder; slim ones (no queries, no probabilities) are small enough for
results/. Both read the same way. Must not know what the scores mean.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from graft_jax.errors import GraftError
from graft_jax.io.files import read_json, write_text
from graft_jax.metrics import ShortPlans
from graft_jax.shapes import misfit

KIND = "graft-jax scores"
FORMAT = 1
# What the protocol asks of every score file; None where a method has none (kNN: no planner).
PROVENANCE = ("seed", "config", "data_hash", "planner_hash", "versions")
_SLIM_DIGITS = 6


# What a score file holds, as far as it is read.


class _Figure(TypedDict):
    value: float | None
    low: float | None
    high: float | None
    count: int


class _Slice(TypedDict):
    examples: int
    short_plans: int
    metrics: dict[str, _Figure]


class _Spread(TypedDict):
    mean: float
    median: float
    p95: float


class _Cost(TypedDict):
    truncated: int
    prompt_tokens: _Spread | None
    generated_tokens: _Spread | None
    seconds: _Spread | None
    batched_seconds: _Spread | None


class _Columns(TypedDict):
    id: list[str]
    length: list[int]
    em: list[float]


class _Scores(TypedDict):
    seed: int
    short_plans: ShortPlans
    all: _Slice
    by_length: dict[str, _Slice]
    groups: dict[str, _Slice]
    group_ids: dict[str, list[str]]
    cost: _Cost
    per_example: _Columns


class _Provenance(TypedDict):
    method: str | None


class _Prediction(TypedDict):
    id: str
    query: str
    gold: list[str]
    predicted: list[str]
    log_prob: float | None


class _File(TypedDict):
    provenance: _Provenance
    scores: _Scores


class _Slim(_File):
    predictions: list[Any]


class _Full(_File):
    predictions: list[_Prediction]


def write_scores(
    path: str | Path,
    scores: Mapping[str, Any],
    records: Sequence[Mapping[str, Any]],
    provenance: Mapping[str, Any],
) -> None:
    """Writes a score file, whole or not at all.

    Args:
      path: the file to write; its folder is made.
      scores: of `scores.score_predictions`.
      records: the prediction records behind them.
      provenance: at least `PROVENANCE`, `versions` with those of jax and the project; `method`,
        `data`, `split`, `backbone` and `constrain` name the row in tables.

    Raises:
      GraftError: a key of `PROVENANCE` is missing, or a number is not finite.
    """
    missing = [key for key in PROVENANCE if key not in provenance]
    if missing:
        raise GraftError(
            f"{path}: the provenance lacks {', '.join(missing)}; give it (None where there is none)"
        )
    save_scores(
        path,
        {
            "kind": KIND,
            "format": FORMAT,
            "provenance": dict(provenance),
            "scores": dict(scores),
            "predictions": list(records),
        },
    )


def save_scores(path: str | Path, score_file: Mapping[str, Any]) -> None:
    """Writes the content of a score file (as read, or slim): one record a line."""
    try:
        text = _dump(score_file)
    except ValueError as error:
        raise GraftError(f"{path}: cannot be written as JSON ({error}); give None for it") from None
    write_text(path, text + "\n")


def read_scores(path: str | Path) -> dict[str, Any]:
    """Reads a score file: `provenance`, `scores`, `predictions` (and `slim`: True for a slim one).

    What the tables, the report and `scores.compare` read of it is there and of its kind.

    Raises:
      GraftError: the file is missing, is not JSON, is no score file, one of another format, or
        damaged (the place named).
    """
    content = read_json(path)
    if not is_score_file(content):
        raise GraftError(
            f"{path}: is not a score file; make one with launch/evaluate.py, or take this one away"
        )
    if content.get("format") != FORMAT:
        raise GraftError(
            f"{path}: is a score file of format {content.get('format')!r}, this version reads "
            f"{FORMAT}; score again, or read it with the version that wrote it"
        )
    if odd := misfit(content, _Slim if content.get("slim") else _Full):
        raise GraftError(f"{path}: {odd}; score again")
    if fault := next(_faults(content["scores"]), None):
        raise GraftError(f"{path}: scores.{fault}; score again")
    return content


def _faults(scores: Mapping[str, Any]) -> Iterator[str]:
    """What no type says: lengths are numbers, every slice has EM, columns stand side by side."""
    if scores["seed"] < 0:
        yield "seed is below 0"
    slices = {"all": scores["all"]}
    for kind in ("by_length", "groups"):
        slices |= {f"{kind}.{name}": part for name, part in scores[kind].items()}
    yield from (
        f"{name}.metrics has no em" for name, s in slices.items() if "em" not in s["metrics"]
    )
    yield from (
        f"by_length.{name} is no length" for name in scores["by_length"] if not name.isdecimal()
    )
    columns = dict(scores["per_example"])
    ids = columns.pop("id")
    if odd := misfit(columns, dict[str, list[float | None]], ("per_example",)):
        yield str(odd)
    if len(set(ids)) < len(ids) or any(len(column) != len(ids) for column in columns.values()):
        yield "per_example: its columns do not have one value for each id"
    for name, members in scores["group_ids"].items():
        if not set(members) <= set(ids):
            yield f"group_ids.{name} has an id that per_example has not"


def is_score_file(content: Any) -> bool:
    """Whether decoded JSON says of itself that it is a score file."""
    return isinstance(content, dict) and content.get("kind") == KIND


def slim(score_file: Mapping[str, Any]) -> dict[str, Any]:
    """The score file for results/: all scores and provenance; predictions as rows
    [id, predicted, right (1 or 0)]; numbers to six digits.

    The columns that `scores.compare` reads stay, but for those of the peers' metrics.
    """
    if score_file.get("slim"):
        return dict(score_file)
    scores = dict(score_file["scores"])
    scores["per_example"] = {
        name: column
        for name, column in scores["per_example"].items()
        if not name.startswith(("taskbench_", "gnn4plan_"))
    }
    return {
        "kind": score_file["kind"],
        "format": score_file["format"],
        "slim": True,
        "provenance": score_file["provenance"],
        "scores": _rounded(scores),
        "predictions": [
            [r["id"], list(r["predicted"]), int(list(r["predicted"]) == list(r["gold"]))]
            for r in score_file["predictions"]
        ],
    }


def _rounded(value: Any) -> Any:
    if isinstance(value, float) and math.isfinite(value):
        return round(value, _SLIM_DIGITS)
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return value


def _dump(value: Any, depth: int = 4, indent: str = "") -> str:
    """JSON that reads and diffs well: objects opened to `depth`, lists of records by the line."""
    inner = indent + " "
    if isinstance(value, dict) and value and depth:
        items = (f"{json.dumps(k)}: {_dump(v, depth - 1, inner)}" for k, v in value.items())
        return "{\n" + ",\n".join(inner + item for item in items) + f"\n{indent}}}"
    if isinstance(value, list) and value and isinstance(value[0], dict | list):
        return "[\n" + ",\n".join(inner + _dump(item, 0) for item in value) + f"\n{indent}]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
