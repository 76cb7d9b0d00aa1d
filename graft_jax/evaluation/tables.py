"""Markdown tables of scores, for the README and for reports.

Must not know how scores are computed. Shares are in percent where the paper prints percent.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from graft_jax.errors import GraftError
from graft_jax.evaluation.score_files import read_scores

BEGIN, END = "<!-- results:begin -->", "<!-- results:end -->"
NOTHING = "–"
# Metrics beside each other as the paper's Tables 1 and 4 have them: column -> (metric, digits, %).
HEADLINE: dict[str, tuple[str, int, bool]] = {
    "ELR": ("elr", 3, False),
    "ACPL": ("acpl", 2, False),
    "F1": ("tool_f1", 1, True),
    "NED": ("ned", 3, False),
    "PA@1": ("pa@1", 3, False),
    "PA@3": ("pa@3", 3, False),
}


def results_table(paths: Iterable[str | Path]) -> str:
    """One row a score file (full or slim), in the order given.

    Raises:
      GraftError: as `score_files.read_scores`.
    """
    head = ["Data", "Method", "Backbone", "Constrain", "n", "EM (95% interval)", *HEADLINE]
    rows = []
    for path in paths:
        content = read_scores(path)
        provenance = content["provenance"]
        data = " ".join(str(provenance[k]) for k in ("data", "split") if provenance.get(k))
        rows.append(
            [
                plain(data or NOTHING),
                plain(provenance.get("method") or Path(path).stem),
                plain(provenance.get("backbone") or NOTHING),
                plain(provenance.get("constrain") or NOTHING),
                content["scores"]["all"]["examples"],
                *headline_cells(content["scores"]["all"]),
            ]
        )
    return markdown_table([*head, "Hallucination"], rows)


def paired_table(found: Mapping[str, Any]) -> str:
    """What `scores.compare` found of a and b: differences a - b with intervals, overall and by
    length of the gold plan; "better" and "worse" are a's where the interval leaves out 0.
    """
    columns = {"EM": ("em", 1, True), **HEADLINE}
    places = [("all", found["all"])]
    places += [(f"{length} tools", part) for length, part in found["by_length"].items()]
    places += [(name, part) for name, part in found["groups"].items()]
    rows = []
    for place, part in places:
        cells = []
        for metric, digits, percent in columns.values():
            figure = part["metrics"].get(metric)
            if figure is None or figure["value"] is None:
                cells.append(NOTHING)
                continue
            clear = f" {figure['verdict']}" if figure["verdict"] != "unclear" else ""
            cells.append(with_interval(figure, digits, percent) + clear)
        rows.append([plain(place), part["examples"], *cells])
    alone = f"{len(found['only_a'])} requests are right in the first alone"
    return (
        markdown_table(["Gold plans", "n", *columns], rows)
        + f"\n{alone}, {len(found['only_b'])} in the second alone.\n"
    )


def headline_cells(part: Mapping[str, Any]) -> list[str]:
    """Cells EM with interval, `HEADLINE`, hallucination, of one slice of a score set."""
    metrics = part["metrics"]
    cells = [with_interval(metrics["em"], digits=1, percent=True)]
    cells += [
        number(metrics.get(metric, {}).get("value"), digits, percent)
        for metric, digits, percent in HEADLINE.values()
    ]
    return [*cells, hallucination(metrics)]


def hallucination(metrics: Mapping[str, Any]) -> str:
    """By tokens where plans were free text (constrain=off), else by names."""
    free = metrics.get("token_hallucination")
    figure = free or metrics.get("hallucination", {})
    text = number(figure.get("value"), 2, percent=True)
    return text if text == NOTHING else f"{text}% of {'tokens' if free else 'names'}"


def number(value: float | None, digits: int, percent: bool = False) -> str:
    """A figure with fixed digits; what is undefined is a dash, never 0."""
    if value is None:
        return NOTHING
    text = f"{100 * value if percent else value:.{digits}f}"
    return text.lstrip("-") if float(text) == 0 else text


def with_interval(figure: Mapping[str, Any], digits: int, percent: bool = False) -> str:
    """`value [low, high]` of a figure of a score set; a signed one of `compare` reads the same."""
    text = number(figure["value"], digits, percent)
    if figure["low"] is None or figure["high"] is None:
        return text
    low, high = (number(figure[end], digits, percent) for end in ("low", "high"))
    return f"{text} [{low}, {high}]"


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A GitHub table of cells that are markdown already (`plain`, `code`); None is a dash.

    Columns of numbers stand to the right.
    """
    cells = [[NOTHING if item is None else str(item) for item in row] for row in rows]
    numeric = [bool(cells) and all(_is_number(row[i]) for row in cells) for i in range(len(head))]
    lines = [list(head), ["---:" if right else "---" for right in numeric], *cells]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def plain(value: Any, limit: int = 300) -> str:
    """Any text for a table cell: on one line, cut at `limit`, nothing in it taken for markup."""
    text = _one_line(value, limit).replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\`*~|$>]|\b_|_\b|\](?=[(\[:]))", r"\\\1", text)


def code(value: Any, limit: int = 120) -> str:
    """A name for a table cell, as code: underscores and brackets show as they are."""
    text = _one_line(value, limit).replace("|", "\\|")
    if "`" not in text:
        return f"`{text}`"
    fence = "`" * (max(map(len, re.findall("`+", text))) + 1)
    return f"{fence} {text} {fence}"


def _one_line(value: Any, limit: int) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _is_number(text: str) -> bool:
    return text == NOTHING or re.match(r"[+-]?\d", text) is not None


def replace_block(text: str, body: str, begin: str = BEGIN, end: str = END) -> str:
    """`text` with what stands between the two markers, each once and alone on its line, replaced.

    Line ends are those of the marker's line.

    Raises:
      GraftError: a marker is missing, stands twice, or the end comes first.
    """
    lines = text.split("\n")
    places = [[i for i, line in enumerate(lines) if line.strip() == m] for m in (begin, end)]
    if any(len(place) != 1 for place in places) or places[0][0] > places[1][0]:
        raise GraftError(
            f"expected a line {begin} and, below it, a line {end}, once each; add them where the "
            "table belongs"
        )
    first, last = places[0][0], places[1][0]
    end_of_line = "\r" if lines[first].endswith("\r") else ""
    inside = [line + end_of_line for line in body.rstrip("\n").split("\n")]
    return "\n".join([*lines[: first + 1], *inside, *lines[last:]])
