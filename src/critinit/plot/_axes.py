"""What all plots do with their axes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from critinit.plot._style import Style
from critinit.plot._ticks import log_ticks, tick_label
from critinit.plot._values import PlotError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_EDGE = 0.025  # of the height, for what is beyond the scale


def axes_or_new(ax: Axes | None) -> Axes:
    """The given axes, or those of a new figure."""
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise PlotError(
            f"plots need Matplotlib ({error}). Install it with: pip install 'critinit[plot]'."
        ) from error
    new: Axes = pyplot.subplots(layout="constrained")[1]
    return new


def log_colour_bar(
    mesh: Any,
    ax: Axes | Sequence[Axes],
    marks: Sequence[float],
    names: Mapping[float, str] | None = None,
    *,
    label: str = "$J$",
    extend: str = "both",
) -> None:
    """Explain beside ``ax`` colours that stand for log10 of what is marked."""
    bar = mesh.figure.colorbar(mesh, ax=ax, extend=extend, label=label)
    words = [(names or {}).get(mark, f"{mark:g}") for mark in marks]
    bar.set_ticks([math.log10(mark) for mark in marks], labels=words)


def draw_line(
    ax: Axes,
    x: Sequence[float],
    y: Sequence[float],
    style: Style,
    name: str,
    *,
    errors: tuple[Sequence[float], Sequence[float]] | None = None,
    joined: bool = True,
) -> None:
    """A line with markers; what is zero or infinite on a logarithmic axis goes to its edge."""
    log = ax.get_yscale() == "log"
    shown = [v if math.isfinite(v) and (v > 0 or not log) else math.nan for v in y]
    ax.errorbar(
        list(x), shown, None if errors is None else _lengths(shown, errors), label=name,
        **look(style, len(x), joined),
    )  # fmt: skip
    below = [a for a, v in zip(x, y, strict=True) if v == -math.inf or (log and v == 0)]
    above = [a for a, v in zip(x, y, strict=True) if v == math.inf]
    for places, height, marker in ((below, _EDGE, "v"), (above, 1 - _EDGE, "^")):
        if places:
            ax.plot(
                places,
                [height] * len(places),
                marker,
                color=style.colour,
                transform=ax.get_xaxis_transform(),
                label=f"{name}: {'zero' if marker == 'v' else 'infinite'}",
                zorder=5,
            )


def _lengths(
    y: Sequence[float], ends: tuple[Sequence[float], Sequence[float]]
) -> list[list[float]]:
    """From the points down and up, as far as they are known."""
    low = [
        max(0.0, v - a) if math.isfinite(v - a) else 0.0 for v, a in zip(y, ends[0], strict=True)
    ]
    high = [
        max(0.0, b - v) if math.isfinite(b - v) else 0.0 for v, b in zip(y, ends[1], strict=True)
    ]
    return [low, high]


def look(style: Style, points: int, joined: bool = True) -> dict[str, Any]:
    """The options of Matplotlib for a style; the more points, the smaller their markers."""
    return {
        "color": style.colour,
        "marker": style.marker,
        "markersize": 6 if points <= 30 else 4 if points <= 80 else 2.2,
        "markerfacecolor": style.colour if style.filled else "white",
        "linestyle": ("-" if not style.dash else (0, style.dash)) if joined else "none",
        "linewidth": 1.4,
        "elinewidth": 1.0,
    }


def cover(ax: Axes, low: float, high: float) -> None:
    """Make the vertical axis reach over that range at least."""
    bottom, top = ax.get_ylim()
    ax.set_ylim(min(bottom, low), max(top, high))


def plain_ticks(ax: Axes) -> None:
    """Mark a logarithmic axis by numbers as people write them."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter

    low, high = (math.log10(end) for end in ax.get_ylim())
    ax.yaxis.set_major_locator(FixedLocator([10**t for t in log_ticks(low, high)]))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: tick_label(math.log10(v))))
    ax.yaxis.set_minor_formatter(NullFormatter())


def whole_numbers(ax: Axes) -> None:
    """Mark the horizontal axis at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(integer=True))


def level(ax: Axes, at: float = 1.0) -> None:
    """The line that is aimed at."""
    ax.axhline(at, color="0.35", linewidth=0.9, zorder=0.5)
