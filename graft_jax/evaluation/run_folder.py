"""What lies in a run folder, for its report: planner.json, metrics.jsonl, scores/, reports/.

Any of them may be missing (a stage switched off, nothing evaluated yet); what is there is sound, or
refused. Must not know how a report looks.
"""

import dataclasses
from pathlib import Path
from typing import Any, TypedDict

from graft_jax.errors import GraftError
from graft_jax.evaluation.score_files import read_scores
from graft_jax.io.files import read_json
from graft_jax.io.metrics_file import METRICS, read_metrics
from graft_jax.shapes import is_number, misfit

STAGES = ("grounding", "edges", "sft", "distill")
PICTURES = "pictures"


class Recovery(TypedDict):
    """How well one kind of edge is recovered; None where there is no such edge."""

    edges: int
    auc: float | None
    precision_at_out_degree: float | None


# Files of reports/ and what is in them.
_REPORTS: dict[str, Any] = {
    "edges": dict[str, Recovery],
    "edges_before": dict[str, Recovery],
    "teacher": dict[str, Any],
}


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
        rows = [row for row in self.rows if row["stage"] == stage and is_number(row.get(key))]
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
            if isinstance(row.get("validation"), dict) and is_number(row["validation"].get("em"))
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
    card = _read(card_path, dict[str, Any]) if card_path.is_file() else {}
    scores = {path.stem: read_scores(path) for path in sorted((folder / "scores").glob("*.json"))}
    reports = {
        path.stem: _read(path, _REPORTS.get(path.stem, Any))
        for path in sorted((folder / "reports").glob("*.json"))
    }
    return RunFolder(folder, card, tuple(read_metrics(folder / METRICS)), scores, reports)


def _read(path: Path, shape: Any) -> Any:
    content = read_json(path)
    if odd := misfit(content, shape):
        raise GraftError(f"{path}: {odd}; train again or fetch the file again")
    return content
