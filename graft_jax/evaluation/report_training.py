"""The report's sections on how the planner was made: the stages, and where everything comes from.

Each takes a run folder's content and gives lines of markdown; pictures go beside. Must not know how
stages are trained.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from graft_jax.evaluation import plots
from graft_jax.evaluation.run_folder import PICTURES, STAGES, RunFolder
from graft_jax.evaluation.tables import NOTHING, code, markdown_table, number, plain

# Summed up in the table of stages, not once more below it.
_KNOWN = ("step", "stage_step", "loss", "tokens_per_second")
_MEANING = {
    "kl": "KL(student ‖ teacher), nats",
    "rollout_em": "share of sampled plans that are right",
    "teacher_em": "share of prompts on which the teacher is right",
    "teacher_corrects": "share where the teacher is right and the student is not",
}


def stages_section(run: RunFolder) -> list[str]:
    """Losses by stage, what each stage reports of itself, and edge recovery."""
    lines = ["## Stages", ""]
    stages = run.stages()
    if stages:
        lines += _losses(run, stages)
    missing = [stage for stage in STAGES if stage not in stages]
    if missing:
        verb = "was" if len(missing) == 1 else "were"
        lines += [f"{_listed(missing)} {verb} not run, or left no metrics.", ""]
    for stage in stages:
        lines += _numbers(run, stage)
    lines += _edges(run)
    if "teacher" in run.reports:
        flat = _leaves(run.reports["teacher"])
        lines += ["### How the teacher reads its context, before distillation", ""]
        lines += [markdown_table(["Figure", "Value"], [[plain(k), v] for k, v in flat.items()])]
    return lines


def _losses(run: RunFolder, stages: tuple[str, ...]) -> list[str]:
    rows = []
    losses = {}
    for stage in stages:
        steps, values = losses[stage] = run.series(stage, "loss")
        first, last = _ends(values)
        speed = run.series(stage, "tokens_per_second")[1]
        rows.append(
            [
                plain(stage),
                f"{steps[0]}-{steps[-1]}",
                number(first, 4),
                number(last, 4),
                number(float(np.median(speed)) if speed else None, 0),
            ]
        )
    head = ["Stage", "Updates", "Loss at the start", "at the end", "Tokens/s (median)"]
    plots.plot_losses(losses, run.validation(), run.path / PICTURES / "losses.png")
    lines = [markdown_table(head, rows)]
    steps, em = run.validation()
    if steps:
        best = int(np.argmax(em))
        lines += [
            f"Validation EM, measured {len(steps)} times: {number(em[-1], 1, percent=True)} at the "
            f"end, at best {number(em[best], 1, percent=True)} (update {steps[best]}).",
            "",
        ]
    return [*lines, f"![Loss by stage]({PICTURES}/losses.png)", ""]


def _numbers(run: RunFolder, stage: str) -> list[str]:
    """A stage's further numbers (KL, rollout EM, ...) at its start, at its end, and on average."""
    rows = []
    for key in (key for key in run.keys(stage) if key not in _KNOWN):
        values = run.series(stage, key)[1]
        first, last = _ends(values)
        mean = float(np.mean(values))
        name = f"{plain(key)}: {_MEANING[key]}" if key in _MEANING else plain(key)
        rows.append([name, number(first, 4), number(last, 4), number(mean, 4), len(values)])
    if not rows:
        return []
    head = ["Figure", "At the start", "At the end", "Mean", "Lines"]
    return [
        f"### {plain(stage)}",
        "",
        "Start and end are means over a twentieth of the lines.",
        "",
        markdown_table(head, rows),
    ]


def _edges(run: RunFolder) -> list[str]:
    lines = ["### Edges recovered from hidden states", ""]
    if "edges" not in run.reports:
        return [*lines, "Edge recovery was not measured: the stage did not run.", ""]
    before = run.reports.get("edges_before", {})
    rows = [
        [
            plain(name.replace("_", " ")),
            part["edges"],
            number(before.get(name, {}).get("auc"), 4),
            number(part["auc"], 4),
            number(part["precision_at_out_degree"], 4),
        ]
        for name, part in run.reports["edges"].items()
    ]
    head = ["Edges", "n", "AUC before the stage", "AUC after it", "Precision at out-degree"]
    return [
        *lines,
        "Held-out edges are kept from the loss. Reverse: one-way edges against their own reverse; "
        "its precision is the share scored above it.",
        "",
        markdown_table(head, rows),
    ]


def provenance_section(run: RunFolder) -> list[str]:
    """Everything planner.json says, and what stands behind each score file."""
    lines = ["## Provenance", ""]
    if run.card:
        card = {key: value for key, value in run.card.items() if key != "scores"}
        rows = [[plain(key), plain(value)] for key, value in _flat(card).items()]
        lines += [markdown_table(["planner.json", "Value"], rows)]
    else:
        lines += ["There is no planner.json: training has not finished.", ""]
    if run.scores:
        flat = [
            _flat({k: v for k, v in one["provenance"].items() if k != "config"})
            for one in run.scores.values()
        ]
        rows = [
            [plain(key), *(plain(one.get(key, NOTHING)) for one in flat)]
            for key in dict.fromkeys(key for one in flat for key in one)
        ]
        lines += [markdown_table(["Scores", *map(code, run.scores)], rows)]
        lines += ["Each file of `scores/` also holds its whole config and every prediction.", ""]
    return lines


def _ends(values: list[float]) -> tuple[float, float]:
    window = max(1, len(values) // 20)
    return float(np.mean(values[:window])), float(np.mean(values[-window:]))


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested objects as one level of dotted keys; lists as JSON."""
    flat: dict[str, str] = {}
    for key, item in value.items():
        if isinstance(item, dict) and item:
            flat |= _flat(item, f"{prefix}{key}.")
        else:
            text = item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)
            text = NOTHING if item is None else text
            flat[f"{prefix}{key}"] = text
    return flat


def _leaves(value: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    leaves: dict[str, str] = {}
    for key, item in value.items():
        if isinstance(item, dict):
            leaves |= _leaves(item, f"{prefix}{key}.")
        else:
            leaves[f"{prefix}{key}"] = number(item, 4) if isinstance(item, float) else plain(item)
    return leaves


def _listed(names: list[str]) -> str:
    text = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return f"The stage {text}" if len(names) == 1 else f"The stages {text}"
