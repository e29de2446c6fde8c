"""Fig. bn_relu, left and middle: J of Pre-BN networks in the plane of σ_w and σ_b."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from critinit import plot
from critinit.figures._bn_draws import MUS, average_over_draws, predicted
from critinit.figures._cost import multiplications
from critinit.figures._draws import data_words
from critinit.figures._figure import Figure, Point, Row, Settings, of_a_kind
from critinit.figures._picture import sheet
from critinit.figures._plane import Plane
from critinit.plot._axes import log_colour_bar

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

_COLOURS_TO = 2.0
_ON_GPU = 20  # points at once, so that a hundred networks run

_PAPER = {
    "data": "cifar10",
    "depth": 30,
    "width": 500,
    "batch": 256,
    "draws": 50,
    "sigma_w": [0.2, 4.0, 20],
    "sigma_b": [0.0, 3.8, 20],
    "seed": 0,
}
_SMALL = _PAPER | {"draws": 5}
_SMOKE = _PAPER | {
    "data": "gaussian",
    "depth": 4,
    "width": 64,
    "batch": 32,
    "draws": 2,
    "sigma_w": [0.5, 3.5, 3],
    "sigma_b": [0.0, 3.0, 2],
}


def points(settings: Settings) -> list[Point]:
    """The plane, for each μ."""
    plane = Plane.of(settings)
    return [point for mu in MUS for point in plane.points(mu=mu)]


def together(
    settings: Settings, points: Sequence[Point], device: torch.device
) -> list[list[Point]]:
    """As many points at once as keep a GPU busy; on a CPU the draws of one point are enough."""
    return of_a_kind(points, "mu", 1 if device.type == "cpu" else _ON_GPU)


def compute(settings: Settings, points: Sequence[Point], device: torch.device) -> list[Row]:
    """J of the first and the deepest residual block, averaged over draws."""
    return average_over_draws(
        settings, [point | {"batch": settings["batch"]} for point in points], device
    )


def draw(settings: Settings, rows: Sequence[Row]) -> Picture:
    """A phase diagram for each μ."""
    picture, axes = sheet(
        2,
        "$J$ of Pre-BN ReLU networks at initialization",
        [
            rf"$J^{{l,l+1}}$ at the deepest residual block, $l={settings['depth'] - 1}$",
            f"$L={settings['depth']}$, $N_l={settings['width']}$, $|B|={settings['batch']}$",
            f"mean of {settings['draws']} draws",
            data_words(settings),
        ],
        sharey=True,
    )
    plane = Plane.of(settings)
    mesh: Any = None
    for ax, mu in zip(axes, MUS, strict=True):
        own = [row for row in rows if row["mu"] == mu]
        mesh = plot.phase(
            plane.sigma_w, plane.sigma_b, plane.apjn(own), ax, limit=_COLOURS_TO, colorbar=False
        )
        measured = float(np.mean([row["j"] for row in own])) if own else np.nan
        theory = predicted(settings, mu, settings["batch"])[-1]
        ax.set_title(rf"$\mu={mu:g}$: mean {measured:.3f}, theory {theory:.3f}")
        ax.set_xlabel(r"$\sigma_w$")
    axes[0].set_ylabel(r"$\sigma_b$")
    limit = np.pi / (np.pi - 1)
    log_colour_bar(mesh, axes, (0.5, 0.7, 1.0, 1.2, limit, 2.0), {limit: r"$\frac{\pi}{\pi-1}$"})
    return picture


def findings(settings: Settings, rows: Sequence[Row]) -> list[str]:
    """Mean and range over each plane, beside the theory."""
    lines = []
    for mu in MUS:
        own = [row for row in rows if row["mu"] == mu]
        j, first = (np.array([row[key] for row in own]) for key in ("j", "j_first"))
        finite, infinite = (predicted(settings, mu, b) for b in (settings["batch"], None))
        error = f" ± {j.std(ddof=1) / np.sqrt(len(j)):.4f}" if len(j) > 1 else ""
        lines.append(
            f"μ={mu:g}, deepest residual block: J = {j.mean():.4f}{error} over the plane, "
            f"from {j.min():.3f} to {j.max():.3f}; theory {finite[-1]:.4f} at this |B|, "
            f"{infinite[-1]:.4f} for |B| → ∞"
        )
        lines.append(
            f"μ={mu:g}, first residual block: J = {first.mean():.4f}; theory {finite[0]:.4f} at "
            f"this |B|, {infinite[0]:.4f} for |B| → ∞; the product over all residual blocks, by "
            f"theory, {finite.prod():.3g}"
        )
    return lines


def work(settings: Settings) -> float:
    """Multiplications for a point."""
    return float(settings["draws"] * multiplications(settings))


FIGURE = Figure(
    name="bn-phase",
    shows="J of BatchNorm networks over σ_w and σ_b, for μ=0 and μ=1",
    settings={"smoke": _SMOKE, "small": _SMALL, "paper": _PAPER},
    parameters=("mu", "sigma_w", "sigma_b"),
    results=("j", "j_se", "j_first"),
    points=points,
    compute=compute,
    draw=draw,
    findings=findings,
    together=together,
    work=work,
)
