"""Test accuracy against the learning rate: one panel a network, one line an initialization."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from plan import Experiment
from summary import Row, trial_of

from critinit.plot._style import Style, styles

mpl.use("agg")
from matplotlib import pyplot
from matplotlib.axes import Axes


def draw(experiment: Experiment, rows: Sequence[Row], path: Path) -> None:
    """Means over the seeds, with the range of the seeds behind."""
    planned = set(experiment.trials())
    mine = [row for row in rows if trial_of(row) in planned]
    count = len(experiment.networks)
    figure, axes = pyplot.subplots(
        1, count, figsize=(3.2 * count + 1.6, 3.1), sharey=True, layout="constrained", squeeze=False
    )
    looks = dict(zip(experiment.methods, styles(experiment.methods), strict=True))
    for ax, network in zip(axes[0], experiment.networks, strict=True):
        for method, style in looks.items():
            own = [r for r in mine if (r["method"], r["network"]) == (method, network)]
            _line(ax, own, style, method)
        ax.set(xscale="log", title=network, xlabel="learning rate")
        ax.set_xticks(experiment.rates, [f"{lr:g}" for lr in experiment.rates])
        ax.minorticks_off()
        ax.axhline(10, color="#8b949e", linewidth=0.8, zorder=0)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0, 0].set_ylabel("test accuracy in %")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", frameon=False, fontsize=9)
    figure.savefig(path, dpi=100, metadata={"Software": None})
    pyplot.close(figure)


def _line(ax: Axes, rows: Sequence[Row], style: Style, name: str) -> None:
    by_rate: dict[float, list[float]] = {}
    for row in rows:
        by_rate.setdefault(float(row["lr"]), []).append(100 * float(row["test"]))
    rates = sorted(by_rate)
    means = [statistics.fmean(by_rate[lr]) for lr in rates]
    below = [m - min(by_rate[lr]) for m, lr in zip(means, rates, strict=True)]
    above = [max(by_rate[lr]) - m for m, lr in zip(means, rates, strict=True)]
    drawn = ax.errorbar(
        rates,
        means,
        (below, above),
        color=style.colour,
        marker=style.marker,
        markersize=5,
        markerfacecolor=style.colour if style.filled else "white",
        linewidth=1.4,
        elinewidth=0.9,
        capsize=2,
        label=name,
    )
    if style.dash:
        drawn.lines[0].set_dashes(style.dash)
