"""The report's pictures. Numbers in, PNG files out; no file is read and nothing is computed here
but running means. Every picture is the same for the same numbers.
"""

import io
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from graft_jax.evaluation.analysis import Reliability
from graft_jax.io.files import written

# Okabe and Ito's colours, told apart by every common kind of colour vision.
BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#56B4E9",
)
COLOURS = (BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY)
MARKERS = "osD^vP"
_STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "text.parse_math": False,  # names of tools may hold dollar signs
    "savefig.dpi": 130,
}


def plot_losses(
    losses: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    validation: tuple[Sequence[float], Sequence[float]],
    path: Path,
) -> None:
    """Loss over updates, one panel a stage (`losses`: stage -> (steps, losses)), and validation
    EM (steps, shares) in a panel of its own where there is any."""
    panels = len(losses) + bool(len(validation[0]))
    columns = min(panels, 3)
    rows = -(-panels // columns)
    with rc_context(_STYLE):
        figure = Figure(figsize=(3.1 * columns, 2.6 * rows), layout="constrained")
        axes = [figure.add_subplot(rows, columns, place + 1) for place in range(panels)]
        for place, (stage, (steps, values)) in enumerate(losses.items()):
            ax = axes[place]
            colour = COLOURS[place % len(COLOURS)]
            ax.plot(steps, values, color=colour, alpha=0.3, linewidth=0.8)
            window = max(1, len(values) // 20)
            smooth_steps, smooth = _running_mean(steps, values, window)
            ax.plot(smooth_steps, smooth, color=colour, linewidth=1.8)
            ax.set_title(stage)
            ax.set_xlabel("update")
            ax.set_ylim(bottom=0)
            if place % columns == 0:
                ax.set_ylabel("training loss (nats)")
        if len(validation[0]):
            axes[-1].plot(*validation, color="black", marker="o", markersize=3.5, linewidth=1.2)
            axes[-1].set_title("validation EM")
            axes[-1].set_xlabel("update")
            axes[-1].yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
            axes[-1].set_ylim(bottom=0)
        for ax in axes:
            ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        _save(figure, path)


def plot_em_by_length(by_length: Mapping[str, Mapping[str, Mapping[str, Any]]], path: Path) -> None:
    """EM with 95% intervals over gold plan length; `by_length`: method -> length -> slice."""
    lengths = sorted({length for slices in by_length.values() for length in slices}, key=int)
    with rc_context(_STYLE):
        figure = Figure(figsize=(6, 3.6), layout="constrained")
        ax = figure.subplots()
        for place, (method, slices) in enumerate(by_length.items()):
            shift = 0.12 * (place - (len(by_length) - 1) / 2)
            present = [i for i, length in enumerate(lengths) if length in slices]
            figures = [slices[lengths[i]]["metrics"]["em"] for i in present]
            _points(ax, np.array(present) + shift, figures, place, method)
        counts: dict[str, int] = {}
        for slices in by_length.values():
            counts |= {length: part["examples"] for length, part in slices.items()}
        ax.set_xticks(range(len(lengths)), [f"{i}\nn = {counts[i]}" for i in lengths])
        ax.set_xlim(-0.5, len(lengths) - 0.5)
        ax.set_xlabel("tools in the gold plan")
        ax.set_ylabel("exact match, 95% interval")
        ax.set_ylim(-0.02, 1.02)
        ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        ax.grid(axis="x", visible=False)
        figure.legend(loc="outside upper center", ncols=2)
        _save(figure, path)


def plot_confusions(pairs: Sequence[tuple[str, str, int]], path: Path, most: int = 15) -> None:
    """Bars of the commonest first errors, (gold, predicted, count), commonest on top."""
    shown = list(pairs[:most])[::-1]
    with rc_context(_STYLE):
        figure = Figure(figsize=(7, 0.9 + 0.27 * len(shown)), layout="constrained")
        ax = figure.subplots()
        counts = [count for _, _, count in shown]
        bars = ax.barh(range(len(shown)), counts, color=BLUE, height=0.7)
        ax.bar_label(bars, padding=3, fontsize=9)
        labels = [f"{_short(gold)}  →  {_short(predicted)}" for gold, predicted, _ in shown]
        ax.set_yticks(range(len(shown)), labels, fontsize=9)
        ax.set_xlabel("plans whose first error is this one (gold → predicted)")
        ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        ax.grid(axis="y", visible=False)
        _save(figure, path)


def plot_reliability(reliability: Reliability, path: Path) -> None:
    """Share of plans right over plan probability, by bins, and how many plans a bin holds."""
    bins = [one for one in reliability.bins if one.probability is not None]
    with rc_context(_STYLE):
        figure = Figure(figsize=(4.6, 5), layout="constrained")
        upper, lower = figure.subplots(
            2, 1, sharex=True, gridspec_kw={"height_ratios": [3.2, 1], "hspace": 0.05}
        )
        upper.plot([0, 1], [0, 1], color="#777777", linestyle="--", linewidth=1, label="ideal")
        figures = [vars(one.right) for one in bins]
        probabilities = np.array([one.probability for one in bins])
        _points(upper, probabilities, figures, 0, "plans, 95% interval")
        upper.set_ylabel("share of plans that are right")
        upper.set_ylim(-0.02, 1.02)
        upper.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        upper.set_title(
            f"expected calibration error {100 * reliability.error:.1f} points, "
            f"{reliability.count} plans"
        )
        upper.legend(loc="upper left")
        lower.bar(
            [one.low for one in reliability.bins],
            [one.right.count for one in reliability.bins],
            width=[one.high - one.low for one in reliability.bins],
            align="edge",
            color=SKY,
            edgecolor="white",
        )
        lower.set_ylabel("plans")
        lower.set_xlabel("probability of the plan")
        lower.set_xlim(-0.02, 1.02)
        lower.yaxis.set_major_locator(MaxNLocator(3, integer=True))
        _save(figure, path)


def _points(
    ax: Axes, x: np.ndarray, figures: Sequence[Mapping[str, Any]], place: int, label: str
) -> None:
    """Points with their intervals; a figure without an interval is drawn without one."""
    value = np.array([figure["value"] for figure in figures], dtype=float)
    low = np.array([figure["low"] for figure in figures], dtype=float)
    high = np.array([figure["high"] for figure in figures], dtype=float)
    # Rounding may leave a bound on the wrong side of the value by an ulp; an error bar must not.
    reach = np.maximum(np.nan_to_num([value - low, high - value]), 0)
    ax.errorbar(
        x,
        value,
        yerr=reach,
        fmt=MARKERS[place % len(MARKERS)],
        color=COLOURS[place % len(COLOURS)],
        capsize=3,
        markersize=5,
        label=label,
    )


def _running_mean(
    steps: Sequence[float], values: Sequence[float], window: int
) -> tuple[np.ndarray, np.ndarray]:
    """Means of `window` neighbours, each at the middle of its steps."""
    kernel = np.ones(window) / window
    means = [np.convolve(np.asarray(column, float), kernel, "valid") for column in (steps, values)]
    return means[0], means[1]


def _short(name: str, limit: int = 32) -> str:
    name = " ".join(name.split())
    return name if len(name) <= limit else name[: limit - 1] + "…"


def _save(figure: Figure, path: Path) -> None:
    """Writes a PNG whole or not at all; no date or version in it, so that it is reproducible."""
    picture = io.BytesIO()
    with warnings.catch_warnings():
        # A name in a script that the font lacks is drawn as boxes; the report's text has the name.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(picture, format="png", metadata={"Software": None})
    with written(path) as temporary:
        temporary.write_bytes(picture.getvalue())
