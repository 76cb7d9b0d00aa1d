"""`report.md` of a run: what the planner reaches, where it fails, how it was made, with pictures.

Deterministic given the run folder's files; what is missing is said in words. The sections are in
`report_scores` and `report_training`.
"""

from pathlib import Path

from graft_jax.evaluation.report_scores import (
    by_length_section,
    cost_section,
    errors_section,
    examples_section,
    reliability_section,
    scores_section,
)
from graft_jax.evaluation.report_training import provenance_section, stages_section
from graft_jax.evaluation.run_folder import PICTURES, read_run
from graft_jax.evaluation.tables import plain
from graft_jax.io.files import write_text

REPORT = "report.md"
_SECTIONS = (
    scores_section,
    by_length_section,
    stages_section,
    errors_section,
    reliability_section,
    examples_section,
    cost_section,
    provenance_section,
)


def write_report(run_dir: str | Path) -> Path:
    """Writes `report.md` and `pictures/*.png` into a run folder; returns the report's path.

    Reads planner.json, metrics.jsonl and scores/*.json (see `run_folder`).

    Raises:
      GraftError: the folder is missing, or a file in it is damaged.
    """
    run = read_run(run_dir)
    # A picture of an earlier report must not outlive the files it was made from.
    for picture in (run.path / PICTURES).glob("*.png"):
        picture.unlink()
    lines = [f"# Run {plain(run.path.resolve().name)}", ""]
    for section in _SECTIONS:
        lines += section(run)
    write_text(run.path / REPORT, "\n".join(lines).rstrip("\n") + "\n")
    return run.path / REPORT
