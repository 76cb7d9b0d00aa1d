"""What lies in a run folder, for its report: planner.json, metrics.jsonl, scores/, reports/.

Any of them may be missing (a stage switched off, nothing evaluated yet); what is there must be
sound. Must not know how a report looks.
"""

import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from graft_jax.errors import GraftError
from graft_jax.evaluation.score_files import is_score_file, read_scores
from graft_jax.io.files import read_json

STAGES = ("grounding", "edges", "sft", "distill")
PICTURES = "pictures"


@dataclasses.dataclass(frozen=True)
class RunFolder:
    """`card` is planner.json (empty if absent), `rows` the lines of metrics.jsonl, `scores` the
    score files by their stem, `reports` what stages measured of themselves (reports/*.json)."""

    path: Path
    card: dict[str, Any]
    rows: tuple[dict[str, Any], ...]
    scores: dict[str, dict[str, Any]]
    reports: dict[str, dict[str, Any]]

    def stages(self) -> tuple[str, ...]:
        """Stages that have training lines: the known ones in run order, then any other."""
        names = dict.fromkeys(row["stage"] for row in self.rows)
        seen = [name for name in names if self.series(name, "loss")[0]]
        return tuple(sorted(seen, key=lambda s: STAGES.index(s) if s in STAGES else len(STAGES)))

    def series(self, stage: str, key: str) -> tuple[list[int], list[float]]:
        """(global steps, values) of a number over a stage's lines, in the order of steps."""
        rows = [row for row in self.rows if row["stage"] == stage and _is_number(row.get(key))]
        rows.sort(key=lambda row: row["step"])
        return [row["step"] for row in rows], [float(row[key]) for row in rows]

    def keys(self, stage: str) -> list[str]:
        """Names of a stage's numbers, in the order they first come."""
        names = (key for row in self.rows if row["stage"] == stage for key in row)
        seen = dict.fromkeys(names)
        return [key for key in seen if self.series(stage, key)[0]]

    def validation(self) -> tuple[list[int], list[float]]:
        """(global steps, validation EM), in the order of steps."""
        rows = [
            (row["step"], float(row["validation"]["em"]))
            for row in self.rows
            if isinstance(row.get("validation"), dict) and _is_number(row["validation"].get("em"))
        ]
        return [step for step, _ in sorted(rows)], [em for _, em in sorted(rows)]


def read_run(folder: str | Path) -> RunFolder:
    """Reads a run folder.

    Raises:
      GraftError: the folder is missing, or one of its files is damaged (file and line named).
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise GraftError(f"{folder}: no such run folder; train into it first, or check its path")
    card_path = folder / "planner.json"
    card = read_json(card_path) if card_path.is_file() else {}
    if not isinstance(card, dict):
        raise GraftError(f"{card_path}: is not a JSON object; train again or fetch the file again")
    scores: dict[str, dict[str, Any]] = {}
    for path in sorted((folder / "scores").glob("*.json")):
        content = read_json(path)
        if is_score_file(content):
            scores[path.stem] = read_scores(path)
        else:
            raise GraftError(f"{path}: is not a score file; take it out of scores/ or score again")
    reports = {path.stem: read_json(path) for path in sorted((folder / "reports").glob("*.json"))}
    return RunFolder(folder, card, tuple(_read_rows(folder / "metrics.jsonl")), scores, reports)


def _read_rows(path: Path) -> Sequence[dict[str, Any]]:
    if not path.is_file():
        return []
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise GraftError(f"{path}, line {number}: is not JSON ({error}); remove it") from None
        sound = (
            isinstance(row, dict)
            and _is_number(row.get("step"))
            and isinstance(row.get("stage"), str)
        )
        if not sound:
            raise GraftError(f"{path}, line {number}: has no step or stage; remove the line")
        rows.append(row)
    return rows


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
