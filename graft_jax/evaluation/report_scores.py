"""The report's sections on predictions: scores, mistakes, probabilities, examples, cost.

Each takes a run folder's content and gives lines of markdown; pictures go beside. Must not know how
figures are computed, nor where predictions come from.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from graft_jax.errors import GraftError
from graft_jax.evaluation import plots
from graft_jax.evaluation.analysis import error_kinds, first_errors, reliability
from graft_jax.evaluation.run_folder import PICTURES, RunFolder
from graft_jax.evaluation.scores import compare
from graft_jax.evaluation.tables import (
    HEADLINE,
    NOTHING,
    code,
    headline_cells,
    markdown_table,
    number,
    plain,
    with_interval,
)

EXAMPLES = 10
CONFUSIONS = 15
_HEAD = ["n", "EM (95% interval)", *HEADLINE, "Hallucination"]


# Which score files play which part.


def _is_knn(stem: str, score_file: Mapping[str, Any]) -> bool:
    return "knn" in stem.lower() or str(score_file["provenance"].get("method")).lower() == "knn"


def _knn(run: RunFolder) -> str | None:
    return next((stem for stem, one in run.scores.items() if _is_knn(stem, one)), None)


def _main(run: RunFolder) -> str | None:
    """The run's own result: constrain=graph on test before tools, before anything else."""
    own = [stem for stem, one in run.scores.items() if not _is_knn(stem, one)]
    return next((s for s in ("test-graph", "test-tools") if s in own), own[0] if own else None)


def scores_section(run: RunFolder) -> list[str]:
    """The headline table, kNN beside the method; paired differences; groups; peers' metrics."""
    main, knn = _main(run), _knn(run)
    lines = ["## Scores", ""]
    if main is None:
        lines += ["The planner has not been evaluated: run `launch/evaluate.py` first.", ""]
        if knn is None:
            return lines
    # The run's own result first, kNN last.
    order = sorted(run.scores, key=lambda stem: (stem == knn, stem != main))
    rows = []
    for stem in order:
        part = run.scores[stem]["scores"]["all"]
        rows.append([code(stem), part["examples"], *headline_cells(part)])
    lines += [markdown_table(["Scores", *_HEAD], rows)]
    lines += ["EM and F1 in percent, ACPL in tools, the others as shares.", ""]
    lines += [_short_plans(run)]
    if knn is None:
        lines += ["There are no kNN scores to stand beside the planner.", ""]
    if main is not None:
        lines += _against_others(run, main)
        lines += _groups(run, main)
        lines += _peer_metrics(run, main)
    return lines


def _short_plans(run: RunFolder) -> str:
    found = [
        f"{code(stem)} {one['scores']['all']['short_plans']}" for stem, one in run.scores.items()
    ]
    rules = {one["scores"]["short_plans"] for one in run.scores.values()}
    how = {
        "omit": "are left out of ELR",
        "legal": "count as legal in ELR",
        "illegal": "count as illegal in ELR",
    }
    rule = how[rules.pop()] if len(rules) == 1 else "count in ELR as each file says"
    return f"Plans shorter than two tools have no pair and {rule}: {', '.join(found)}.\n"


def _against_others(run: RunFolder, main: str) -> list[str]:
    rows, notes = [], []
    knn = _knn(run)
    for stem, other in run.scores.items():
        if stem == main:
            continue
        try:
            found = compare(run.scores[main]["scores"], other["scores"])
        except GraftError as error:
            notes.append(f"{code(stem)} cannot be paired with {code(main)}: {plain(error)}.")
            continue
        em = found["all"]["metrics"]["em"]
        rows.append(
            [
                code(stem),
                with_interval(em, 1, percent=True),
                em["verdict"],
                len(found["only_a"]),
                len(found["only_b"]),
            ]
        )
        if stem == knn:
            notes.append(_where(main, stem, found))
    lines = []
    if rows:
        head = ["The other", "EM difference, points (95%)", "It is", "Right alone"]
        head += ["The other right alone"]
        lines += [f"{code(main)} minus each of the others, paired by example:", ""]
        lines += [markdown_table(head, rows)]
    return [*lines, *(line for note in notes for line in (note, ""))]


def _where(main: str, other: str, found: Mapping[str, Any]) -> str:
    """Says where the first is clearly better and where worse, by metric and by length."""
    places = [("overall", found["all"])]
    places += [(f"gold length {length}", part) for length, part in found["by_length"].items()]
    names = {"em": "EM", **{metric: title for title, (metric, _, _) in HEADLINE.items()}}
    said = []
    for verdict in ("Better", "Worse"):
        here = [
            f"{place} ({', '.join(metrics)})"
            for place, part in places
            if (metrics := [t for m, t in names.items() if _verdict(part, m) == verdict.lower()])
        ]
        said.append(f"{verdict}: {'; '.join(here) or 'nowhere'}.")
    return (
        f"{code(main)} beside {code(other)}, where the interval of the paired difference leaves "
        f"out 0. {' '.join(said)}"
    )


def _verdict(part: Mapping[str, Any], metric: str) -> str | None:
    return part["metrics"].get(metric, {}).get("verdict")


def _groups(run: RunFolder, main: str) -> list[str]:
    groups = run.scores[main]["scores"]["groups"]
    if not groups:
        return []
    rows = [[plain(name), part["examples"], *headline_cells(part)] for name, part in groups.items()]
    return [f"By group of examples, {code(main)}:", "", markdown_table(["Group", *_HEAD], rows)]


def _peer_metrics(run: RunFolder, main: str) -> list[str]:
    """The metrics that peers publish, and other variants: named apart from the protocol's."""
    usual = {"em", "hallucination", "token_hallucination", *(m for m, _, _ in HEADLINE.values())}
    metrics = run.scores[main]["scores"]["all"]["metrics"]
    rows = [
        [code(name), with_interval(figure, 3), figure["count"]]
        for name, figure in metrics.items()
        if name not in usual
    ]
    if not rows:
        return []
    head = ["Metric", "Value (95%)", "n"]
    return [
        f"Variants, and the metrics of TaskBench and GNN4Plan, {code(main)}:",
        "",
        markdown_table(head, rows),
    ]


def by_length_section(run: RunFolder) -> list[str]:
    """Every headline metric by gold length, and the picture of EM."""
    shown = [stem for stem in (_main(run), _knn(run)) if stem is not None]
    if not shown:
        return ["## By plan length", "", "No scores yet.", ""]
    slices = {stem: run.scores[stem]["scores"]["by_length"] for stem in shown}
    rows = [
        [code(stem), length, part["examples"], *headline_cells(part)]
        for stem in shown
        for length, part in sorted(slices[stem].items(), key=lambda item: int(item[0]))
    ]
    named = {_label(stem, run): part for stem, part in slices.items()}
    plots.plot_em_by_length(named, run.path / PICTURES / "em_by_length.png")
    return [
        "## By plan length",
        "",
        markdown_table(["Scores", "Tools in gold", *_HEAD], rows),
        f"![Exact match by length of the gold plan]({PICTURES}/em_by_length.png)",
        "",
    ]


def errors_section(run: RunFolder) -> list[str]:
    """Kinds of errors, and the tools most often taken for another at a plan's first error."""
    lines = ["## Most confused tools", ""]
    records, main = _records(run)
    if not records:
        return [*lines, f"There are no predictions of {_what(main)} to look at.", ""]
    kinds = error_kinds(records)
    said = ", ".join(f"{kind} {count}" for kind, count in kinds.items())
    lines += [f"Plans of {code(main)} by how they differ from gold: {said}.", ""]
    pairs = first_errors(records)
    if not pairs:
        return [*lines, "Every plan is right: no tool is confused with another.", ""]
    plots.plot_confusions(pairs[:CONFUSIONS], run.path / PICTURES / "confusions.png")
    rows = [[code(gold), code(predicted), count] for gold, predicted, count in pairs[:CONFUSIONS]]
    rest = len(pairs) - len(rows)
    lines += ["Where a plan first leaves its gold plan:", ""]
    lines += [markdown_table(["Gold", "Predicted", "Plans"], rows)]
    lines += [f"{rest} rarer confusions are not shown.", ""] if rest else []
    return [*lines, f"![Most confused tools]({PICTURES}/confusions.png)", ""]


def reliability_section(run: RunFolder) -> list[str]:
    """Whether a plan's probability says how often such plans are right."""
    lines = ["## Reliability of plan probabilities", ""]
    records, main = _records(run)
    seed = run.scores[main]["scores"]["seed"] if main else 0
    found = reliability(records, seed=seed)
    if found is None:
        return [*lines, f"The predictions of {_what(main)} carry no probabilities.", ""]
    plots.plot_reliability(found, run.path / PICTURES / "reliability.png")
    rows = [
        [
            f"{one.low:.1f}-{one.high:.1f}",
            one.right.count,
            number(one.probability, 3),
            with_interval(vars(one.right), 3),
        ]
        for one in found.bins
    ]
    return [
        *lines,
        f"Expected calibration error of {_what(main)}: {number(found.error, 1, percent=True)} "
        f"points over {found.count} plans ({len(found.bins)} bins of equal width).",
        "",
        markdown_table(["Probability", "Plans", "Mean probability", "Share right (95%)"], rows),
        f"![Reliability of plan probabilities]({PICTURES}/reliability.png)",
        "",
    ]


def examples_section(run: RunFolder) -> list[str]:
    """Ten predictions, evenly spread over the file, so that they flatter nobody."""
    lines = ["## Predicted against gold", ""]
    records, main = _records(run)
    if not records:
        return [*lines, f"There are no predictions of {_what(main)} to show.", ""]
    places = np.unique(np.linspace(0, len(records) - 1, EXAMPLES).round().astype(int))
    rows = []
    for record in (records[place] for place in places):
        log_prob = record.get("log_prob")
        right = list(record["predicted"]) == list(record["gold"])
        rows.append(
            [
                code(record["id"]),
                plain(record["query"], limit=200),
                _plan(record["gold"]),
                "the same" if right else _plan(record["predicted"]),
                number(None if log_prob is None else float(np.exp(log_prob)), 3),
            ]
        )
    return [
        *lines,
        f"{len(rows)} of {len(records)} examples of {code(main)}, evenly spread over the file:",
        "",
        markdown_table(["Id", "Request", "Gold", "Predicted", "Probability"], rows),
    ]


def cost_section(run: RunFolder) -> list[str]:
    """Tokens and wall time a query."""
    lines = ["## Cost", ""]
    rows = []
    for stem, one in run.scores.items():
        cost = one["scores"]["cost"]
        rows.append(
            [
                code(stem),
                _cost(cost, "prompt_tokens", ("mean",), 1),
                _cost(cost, "generated_tokens", ("mean",), 1),
                _cost(cost, "seconds", ("median", "p95"), 3),
                _cost(cost, "batched_seconds", ("median", "p95"), 3),
                cost["truncated"],
            ]
        )
    if not rows:
        return [*lines, "Nothing was measured.", ""]
    head = ["Scores", "Prompt tokens", "Generated tokens", "Seconds alone: median / p95"]
    head += ["Seconds batched: median / p95", "Requests cut"]
    return [*lines, "A query, on the machine that made the scores:", "", markdown_table(head, rows)]


def _cost(cost: Mapping[str, Any], name: str, parts: tuple[str, ...], digits: int) -> str:
    if name not in cost:
        return NOTHING
    return " / ".join(number(cost[name][part], digits) for part in parts)


def _records(run: RunFolder) -> tuple[list[Mapping[str, Any]], str | None]:
    """The run's own predictions; a slim file's, which have no gold plans, are none."""
    main = _main(run)
    if main is None or run.scores[main].get("slim"):
        return [], main
    return run.scores[main]["predictions"], main


def _label(stem: str, run: RunFolder) -> str:
    """A method's name in a picture."""
    provenance = run.scores[stem]["provenance"]
    constrain = provenance.get("constrain")
    return (provenance.get("method") or stem) + (f", constrain={constrain}" if constrain else "")


def _what(main: str | None) -> str:
    return "the planner" if main is None else code(main)


def _plan(tools: list[str]) -> str:
    return " → ".join(code(tool) for tool in tools) or "(empty plan)"
