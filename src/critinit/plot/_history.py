"""The way of a tuning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from critinit.plot._axes import axes_or_new, draw_line, plain_ticks, whole_numbers
from critinit.plot._style import STYLES, styles
from critinit.plot._values import PlotError
from critinit.result import Result
from critinit.solvers import Step

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def history(tuned: Result | Sequence[Step], ax: Axes | None = None) -> Axes:
    """The loss, step by step.

    Of a sweep each point is the loss that one block was left with; what follows it are rounds over
    all blocks, with the loss of all.

    Args:
        tuned: What `critinit.tune_` returned, or its history.
        ax: Where to draw; by default on a new figure.
    """
    steps = tuned.history if isinstance(tuned, Result) else list(tuned)
    if not steps:
        raise PlotError("the history is empty: nothing was tuned.")
    ax = axes_or_new(ax)
    ax.set_yscale("log")
    own = [i for i, step in enumerate(steps) if step.block is not None]
    common = [i for i, step in enumerate(steps) if step.block is None]
    if own:
        losses = [steps[i].loss for i in own]
        draw_line(ax, own, losses, STYLES[5], "one block", joined=False)
    if common:
        losses = [steps[i].loss for i in common]
        draw_line(ax, common, losses, styles(["tuned"])[0], "all blocks")
    whole_numbers(ax)
    plain_ticks(ax)
    ax.set_xlabel("step")
    ax.set_ylabel("loss")
    ax.legend()
    return ax
