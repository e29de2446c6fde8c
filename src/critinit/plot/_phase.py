"""J over a plane of two hyperparameters."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from critinit.plot._axes import axes_or_new, log_colour_bar
from critinit.plot._values import PlotError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh

_COLOURS = "PuOr_r"  # vanishing purple, exploding orange; both dark in grey, but for the contours
_MARKS = (0.01, 0.1, 0.2, 0.5, 1, 2, 5, 10, 100)
_UNKNOWN = "#9aa0a6"
_Array = NDArray[np.float64]


def phase(
    x: ArrayLike,
    y: ArrayLike,
    j: ArrayLike,
    ax: Axes | None = None,
    *,
    theory: tuple[ArrayLike, ArrayLike] | None = None,
    limit: float = 10.0,
    colorbar: bool = True,
) -> QuadMesh:
    """A phase diagram: J in colour, on a logarithmic scale around 1, and the line J = 1.

    Lines of constant J are broken where gradients vanish and whole where they explode, so that
    the two sides differ in grey. Points without a value are grey.

    Args:
        x: The values along the horizontal axis, ascending.
        y: Those along the vertical one.
        j: J at each point: ``len(y)`` rows of ``len(x)``.
        ax: Where to draw; by default on a new figure.
        theory: A predicted critical line, as its x and its y.
        limit: The colours reach from ``1/limit`` to ``limit``; what is beyond is drawn as these.
        colorbar: Whether to explain the colours beside the axes.

    Returns:
        The coloured mesh, for a colour bar of one's own.
    """
    xs, ys, values = _plane(x, y, j)
    if not limit > 1:
        raise PlotError(f"limit={limit}: the colours reach from 1/limit to limit, so pass over 1.")
    ax = axes_or_new(ax)
    reach = math.log10(limit)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.clip(np.log10(values), -reach, reach)  # NaN stays
    ax.set_facecolor(_UNKNOWN)
    mesh = ax.pcolormesh(xs, ys, logs, cmap=_COLOURS, vmin=-reach, vmax=reach, shading="nearest")
    _contours(ax, xs, ys, logs)
    if theory is not None:
        _predicted(ax, theory)
    if colorbar:
        log_colour_bar(mesh, ax, [m for m in _MARKS if abs(math.log10(m)) <= reach + 1e-9])
    return mesh


def _plane(x: ArrayLike, y: ArrayLike, j: ArrayLike) -> tuple[_Array, _Array, _Array]:
    xs, ys, values = (np.asarray(given, dtype=float) for given in (x, y, j))
    if xs.ndim != 1 or ys.ndim != 1 or values.shape != (len(ys), len(xs)):
        raise PlotError(
            f"j has the shape {values.shape}, x {xs.shape} and y {ys.shape}: j needs a row for "
            "each y and a column for each x."
        )
    return xs, ys, values


def _contours(ax: Axes, x: _Array, y: _Array, logs: _Array) -> None:
    """Where J is 1 in bold, and 1/2, 1/5, 2 and 5 beside it, as far as they are met."""
    if min(logs.shape) < 2 or np.isnan(logs).all():
        return
    low, high = np.nanmin(logs), np.nanmax(logs)
    for mark in (0.2, 0.5, 1, 2, 5):
        if low < math.log10(mark) < high:
            lines = ax.contour(
                x,
                y,
                logs,
                levels=[math.log10(mark)],
                colors="black",
                linewidths=2.0 if mark == 1 else 0.7,
                linestyles="dashed" if mark < 1 else "solid",
            )
            ax.clabel(lines, fmt=f"{mark:g}", fontsize=8)


def _predicted(ax: Axes, line: tuple[ArrayLike, ArrayLike]) -> None:
    """White with a black rim: seen on every colour, and on the line of J = 1."""
    from matplotlib.patheffects import withStroke

    rim = [withStroke(linewidth=3.6, foreground="black")]
    ax.plot(*line, color="white", dashes=(5, 4), linewidth=1.6, path_effects=rim, label="theory")
    ax.legend(loc="upper right", facecolor="0.8")
