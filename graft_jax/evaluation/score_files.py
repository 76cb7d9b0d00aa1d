"""Score files: predictions, scores and where they come from, in one JSON file.

Full files lie in a run folder; slim ones (no queries, no probabilities) are small enough for
results/. Both read the same way. Must not know what the scores mean.
"""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from graft_jax.errors import GraftError
from graft_jax.io.files import read_json, write_text

KIND = "graft-jax scores"
FORMAT = 1
# What the protocol asks of every score file; None where a method has none (kNN: no planner).
PROVENANCE = ("seed", "config", "data_hash", "planner_hash", "versions")
_SLIM_DIGITS = 6


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

    Raises:
      GraftError: the file is missing, is not JSON, is no score file, or one of another format.
    """
    content = read_json(path)
    if not is_score_file(content):
        raise GraftError(f"{path}: is not a score file; make one with launch/evaluate.py")
    if content.get("format") != FORMAT:
        raise GraftError(
            f"{path}: is a score file of format {content.get('format')!r}, this version reads "
            f"{FORMAT}; score again, or read it with the version that wrote it"
        )
    wanted: dict[str, type] = {"provenance": dict, "scores": dict, "predictions": list}
    for key, kind in wanted.items():
        if not isinstance(content.get(key), kind):
            raise GraftError(f"{path}: {key!r} is missing or damaged; score again")
    return content


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
