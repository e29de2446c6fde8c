"""J, K and what follows from them, by depth."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from critinit.plot._axes import axes_or_new, cover, draw_line, level, plain_ticks, whole_numbers
from critinit.plot._style import STYLES, styles
from critinit.plot._values import Curve, PlotError, Quantity, curve
from critinit.profile import Profile
from critinit.theory import Prediction

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LABELS: dict[Quantity, tuple[str, str]] = {
    "apjn": ("block $l$", "$J^{l,l+1}$"),
    "kernel": ("tensor $h^l$", "$K^l$"),
    "product": ("block $l$", r"$\log_{10}$ of the product of $J$ from block 1"),
    "correlation": ("tensor $h^l$", "mean cosine between examples"),
}


def profile(profile: Profile, ax: Axes | None = None) -> Axes:
    """J with its standard error, and K, by depth on one logarithmic axis with the line at 1.

    Args:
        profile: What `critinit.measure` returned.
        ax: Where to draw; by default on a new figure.
    """
    ax = axes_or_new(ax)
    ax.set_yscale("log")
    j, k = curve(profile, "apjn"), curve(profile, "kernel")
    draw_line(ax, j.x, _powers(j.y), styles(["measured"])[0], "$J^{l,l+1}$", errors=_errors(j))
    draw_line(ax, k.x, _powers(k.y), STYLES[5], "$K^l$")
    _finish(ax, "block $l$, tensor $h^l$", "$J$ and $K$")
    return ax


def comparison(
    profiles: Mapping[str, Profile | Prediction],
    ax: Axes | None = None,
    quantity: Quantity = "apjn",
) -> Axes:
    """One quantity of several profiles: before and after a tuning, several methods, or theory.

    Args:
        profiles: What was measured, or what `critinit.theory` predicts, by name; "before",
            "after", "default", "kaiming", "orthogonal", "lsuv", "autoinit" and "theory" always
            look the same.
        ax: Where to draw; by default on a new figure.
        quantity: ``"apjn"`` (J), ``"kernel"`` (K), ``"product"`` (of J over the depth, as a
            decimal logarithm) or ``"correlation"``.
    """
    if not profiles:
        raise PlotError("there is no profile to draw: pass at least one, by name.")
    curves = {name: curve(p, quantity) for name, p in profiles.items()}
    ax = axes_or_new(ax)
    is_log = quantity in ("apjn", "kernel")
    if is_log:
        ax.set_yscale("log")
    for (name, found), style in zip(curves.items(), styles(list(profiles)), strict=True):
        if is_log:
            draw_line(ax, found.x, _powers(found.y), style, name, errors=_errors(found))
        else:
            draw_line(ax, found.x, found.y, style, name, errors=(found.low, found.high))
    _finish(ax, *_LABELS[quantity], quantity)
    return ax


def _finish(ax: Axes, x: str, y: str, quantity: Quantity = "apjn") -> None:
    if quantity in ("apjn", "kernel"):
        cover(ax, 0.48, 2.1)
        plain_ticks(ax)
    if quantity == "correlation":
        cover(ax, 0.0, 1.0)
    else:
        level(ax, 0.0 if quantity == "product" else 1.0)
    whole_numbers(ax)
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.legend()


def _errors(found: Curve) -> tuple[list[float], list[float]]:
    return _powers(found.low), _powers(found.high)


def _powers(logs: Sequence[float]) -> list[float]:
    """``10^log``, infinite where a float cannot hold it."""
    return [10**y if y < 308 else math.nan if math.isnan(y) else math.inf for y in logs]
