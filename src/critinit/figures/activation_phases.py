"""Beyond the paper: the phases of an MLP in the plane of σ_w and σ_b, for any activation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from critinit import plot, theory
from critinit._state import random_state
from critinit.figures._draws import data_words, flat_batch, generator_of, seed_of
from critinit.figures._figure import Figure, Point, Row, Settings, of_a_kind
from critinit.figures._picture import sheet
from critinit.figures._plane import Plane
from critinit.figures._together import measure_together
from critinit.models import mlp
from critinit.plot._axes import log_colour_bar

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

_COLOURS_TO = 5.0
_AT_ONCE = {"cpu": 4, "cuda": 100}  # networks

_PAPER = {
    "data": "gaussian",
    "activations": ["relu", "tanh", "gelu", "silu"],
    "depth": 50,
    "width": 500,
    "batch": 32,
    "sigma_w": [0.25, 4.0, 31],
    "sigma_b": [0.0, 2.0, 21],
    "seed": 0,
}
_SMALL = _PAPER | {"depth": 30, "sigma_w": [0.25, 4.0, 16], "sigma_b": [0.0, 2.0, 17]}
_SMOKE = _PAPER | {
    "activations": ["relu", "tanh"],
    "depth": 4,
    "width": 64,
    "batch": 16,
    "sigma_w": [0.5, 3.5, 4],
    "sigma_b": [0.0, 2.0, 3],
}


def points(settings: Settings) -> list[Point]:
    """The plane of each activation."""
    plane = Plane.of(settings)
    return [point for name in settings["activations"] for point in plane.points(activation=name)]


def together(
    settings: Settings, points: Sequence[Point], device: torch.device
) -> list[list[Point]]:
    """Several networks of the same activation."""
    return of_a_kind(points, "activation", _AT_ONCE.get(device.type, 100))


def compute(settings: Settings, points: Sequence[Point], device: torch.device) -> Iterator[Row]:
    """J and K at the deepest block that is as wide as all others."""
    x = flat_batch(settings, settings["batch"])
    networks = []
    for point in points:
        with random_state(seed_of("weights", point, settings["seed"])):
            network = mlp(settings["width"], settings["depth"], inputs=x.shape[1], **point)
        networks.append(network.to(device))
    generators = [generator_of("probes", point, settings["seed"]) for point in points]
    found = measure_together(networks, x.to(device), generators)
    for j, k in zip(found.apjn, found.kernel, strict=True):
        yield {"j": float(j[-2]), "k": float(k[-2])}


def draw(settings: Settings, rows: Sequence[Row]) -> Picture:
    """Finite networks above, theory below, for each activation."""
    names = settings["activations"]
    picture, axes = sheet(
        len(names),
        r"Phases of MLPs: gradients vanish (purple) or explode (orange)",
        [
            f"above: one network a point, $N_l={settings['width']}$, $|B|={settings['batch']}$; "
            "below: theory of infinite width at the same depth",
            f"both: $J^{{l,l+1}}$ at $l={settings['depth'] - 1}$ of $L={settings['depth']}$",
            "dashed: $J=1$ at a fixed point of $K$, by theory",
            data_words(settings),
        ],
        rows=2,
        sharex=True,
        sharey=True,
    )
    plane = Plane.of(settings)
    mesh: Any = None
    for column, name in enumerate(names):
        measured = plane.apjn([row for row in rows if row["activation"] == name])
        predicted = _predicted(settings, name, plane.sigma_w, np.array(plane.sigma_b)[:, None])
        line = _critical_line(name, settings)
        for ax, j in ((axes[column], measured), (axes[len(names) + column], predicted)):
            mesh = plot.phase(
                plane.sigma_w,
                plane.sigma_b,
                j,
                ax,
                limit=_COLOURS_TO,
                colorbar=False,
                theory=line,
            )
        axes[column].set_title(name)
        axes[len(names) + column].set_xlabel(r"$\sigma_w$")
    for ax, word in ((axes[0], "finite networks"), (axes[len(names)], "theory")):
        ax.set_ylabel(rf"{word}: $\sigma_b$")
    log_colour_bar(mesh, axes, (0.2, 0.5, 1.0, 2.0, 5.0))
    return picture


def _predicted(
    settings: Settings, activation: str, sigma_w: ArrayLike, sigma_b: ArrayLike
) -> NDArray[np.float64]:
    """J at the same block at infinite width, before any step of tuning."""
    start = theory.dynamics(
        activation=activation,
        eta=0.0,
        sigma_w=sigma_w,
        sigma_b=sigma_b,
        depth=settings["depth"],
        steps=1,
    )
    j: NDArray[np.float64] = start.apjn[-2]
    return j


def _critical_line(
    activation: str, settings: Settings
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    low, high, _ = settings["sigma_b"]
    sigma_b = np.linspace(low, high, 41)
    return theory.critical_line(activation, sigma_b), sigma_b


def findings(settings: Settings, rows: Sequence[Row]) -> list[str]:
    """How far J of the networks is from that of theory."""
    lines = []
    for name in settings["activations"]:
        own = [row for row in rows if row["activation"] == name]
        j = np.array([row["j"] for row in own])
        predicted = _predicted(
            settings, name, *([r[k] for r in own] for k in ("sigma_w", "sigma_b"))
        )
        off = np.abs(np.log(j / predicted))
        known = np.isfinite(off)
        same = np.sign(np.log(j)) == np.sign(np.log(predicted))
        lines.append(
            f"{name}: |log J| off theory by {np.median(off[known]):.3f} in the median, "
            f"{np.quantile(off[known], 0.95):.3f} at most in 95% of {known.sum()} points; "
            f"{np.mean(same[known]):.1%} are on the side of J = 1 that theory says"
        )
    return lines


def work(settings: Settings) -> float:
    """Numbers to draw and multiply for a network."""
    return float(settings["depth"] * settings["width"] ** 2)


FIGURE = Figure(
    name="activation-phases",
    shows="the phases of any activation: networks and theory",
    settings={"smoke": _SMOKE, "small": _SMALL, "paper": _PAPER},
    parameters=("activation", "sigma_w", "sigma_b"),
    results=("j", "k"),
    points=points,
    compute=compute,
    draw=draw,
    findings=findings,
    together=together,
    work=work,
)
