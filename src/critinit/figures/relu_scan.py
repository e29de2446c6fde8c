"""Fig. relu_jac, right, and its twin in the appendix: where Algorithm 1 brings J to 1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from critinit import theory
from critinit._state import random_state
from critinit.figures._cost import multiplications
from critinit.figures._draws import data_words, flat_batch, generator_of, seed_of
from critinit.figures._figure import Figure, Point, Row, Settings, of_a_kind
from critinit.figures._picture import sheet
from critinit.figures._relu_plane import ReluPlane
from critinit.models import mlp
from critinit.plot._axes import log_colour_bar

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

_LOSSES: tuple[theory.gradients.Loss, ...] = ("jll", "jsl")
_BAND = 1.25  # J is drawn from 1/1.25 to 1.25
_STEEP = 2.0  # the power law is fitted from this σ_w on

_PAPER = {
    "data": "cifar10",
    "depth": 10,
    "width": 500,
    "batch": 256,
    "steps": 980,
    "sigma_w": [0.125, 5.0, 40],
    "log10_eta": [-3.0, 1.0, 30],
    "seed": 0,
}
_SMOKE = _PAPER | {
    "data": "gaussian",
    "depth": 3,
    "width": 32,
    "batch": 16,
    "steps": 40,
    "sigma_w": [0.5, 5.0, 6],
    "log10_eta": [-2.0, 1.0, 7],
}


def points(settings: Settings) -> list[Point]:
    """The plane, for each loss."""
    sigma_ws = np.linspace(*settings["sigma_w"]).round(6).tolist()
    low, high, count = settings["log10_eta"]
    etas = [float(f"{eta:.4g}") for eta in np.logspace(low, high, count)]
    return [
        {"loss": loss, "eta": eta, "sigma_w": sigma_w}
        for loss in _LOSSES
        for eta in etas
        for sigma_w in sigma_ws
    ]


def together(
    settings: Settings, points: Sequence[Point], device: torch.device
) -> list[list[Point]]:
    """All points of a loss share a network and its probes."""
    return of_a_kind(points, "loss")


def compute(settings: Settings, points: Sequence[Point], device: torch.device) -> Iterator[Row]:
    """The smallest and largest J of the blocks ``1 … L`` after all steps."""
    plane = _plane(*(settings[k] for k in ("data", "batch", "width", "depth", "steps", "seed")))
    eta, sigma_w = (np.array([point[k] for point in points]) for k in ("eta", "sigma_w"))
    end = plane.descend(eta, sigma_w, [point["loss"] for point in points])
    for j, a in zip(end.apjn, end.a, strict=True):
        yield {"j_low": float(j.min()), "j_high": float(j.max()), "negative": int((a < 0).sum())}


@lru_cache(maxsize=1)
def _plane(data: str, batch: int, width: int, depth: int, steps: int, seed: int) -> ReluPlane:
    x = flat_batch({"data": data, "seed": seed}, batch)
    with random_state(seed_of("weights", {}, seed)):
        model = mlp(width, depth, inputs=x.shape[1], sigma_w=1.0)
    weights = [p.detach() for p in model.parameters() if p.ndim == 2]
    return ReluPlane(weights, x, steps, generator_of("probes", {}, seed))


def draw(settings: Settings, rows: Sequence[Row]) -> Picture:
    """The points whose every J came near 1, the region that theory predicts, and η_0."""
    picture, axes = sheet(
        2,
        rf"Where Algorithm 1 brings ReLU networks to $0.8 < J < 1.25$ in {settings['steps']} steps",
        [
            f"$L={settings['depth']}$, $N_l={settings['width']}$, $|B|={settings['batch']}$, "
            r"$\sigma_b=0$",
            "one draw and one probe a step, shared by all points",
            data_words(settings),
            "colour: the block farthest from $J=1$",
        ],
        sharey=True,
    )
    mesh: Any = None
    for ax, loss in zip(axes, _LOSSES, strict=True):
        own = [row for row in rows if row["loss"] == loss and _trained(row)]
        mesh = ax.scatter(
            [row["sigma_w"] for row in own],
            [row["eta"] for row in own],
            c=[_worst_log10(row) for row in own],
            cmap="PuOr_r",
            vmin=-np.log10(_BAND),
            vmax=np.log10(_BAND),
            s=13,
            edgecolors="0.4",
            linewidths=0.3,
        )
        _theory(ax, settings, loss)
        ax.set(title=loss.upper(), xlabel=r"$\sigma_w$", yscale="log")
        ax.set_xlim(0, settings["sigma_w"][1] * 1.02)
        ax.set_ylim(*(10.0 ** np.array(settings["log10_eta"][:2]) * [0.8, 1.25]))
        ax.legend(loc="upper right")
    axes[0].set_ylabel(r"learning rate $\eta$")
    marks = (0.8, 0.9, 1.0, 1.1, 1.25)
    log_colour_bar(mesh, axes, marks, label="$J^{l,l+1}$", extend="neither")
    return picture


def _theory(ax: Any, settings: Settings, loss: theory.gradients.Loss) -> None:
    sigma_w = np.linspace(settings["sigma_w"][0], settings["sigma_w"][1], 160)
    low, high, _ = settings["log10_eta"]
    eta = np.logspace(low, high, 160)
    predicted = _predicted(settings, loss, eta, sigma_w)
    ax.contour(sigma_w, eta, predicted, levels=[0.5], colors="#0b62c4", linewidths=1.2)
    ax.plot([], [], color="#0b62c4", linewidth=1.2, label="predicted region")
    ax.plot(sigma_w, theory.eta_0(sigma_w, loss), "k--", linewidth=1.4, label=r"$\eta_0$")


def _predicted(
    settings: Settings, loss: theory.gradients.Loss, eta: Any, sigma_w: Any
) -> NDArray[np.bool_]:
    """Where the recursion for infinite width gets there, rates × σ_w; its blocks are all alike.

    From the smallest rate that works up to the first that does not: beyond, chaotic orbits are near
    J = 1 at the last step by chance.
    """
    column = np.asarray(eta)[:, None]
    reached = theory.dynamics(
        loss, eta=column, sigma_w=sigma_w, depth=1, steps=settings["steps"], band=_BAND
    ).converged
    begun = np.logical_or.accumulate(reached)
    return begun & np.logical_and.accumulate(reached | ~begun)


def _trained(row: Row) -> bool:
    return bool(row["j_low"] > 1 / _BAND and row["j_high"] < _BAND)


def _worst_log10(row: Row) -> float:
    low, high = np.log10(row["j_low"]), np.log10(row["j_high"])
    return float(low if -low > high else high)


def findings(settings: Settings, rows: Sequence[Row]) -> list[str]:
    """How many points train, how well theory tells which, and how the largest η falls with σ_w."""
    lines = []
    for loss in _LOSSES:
        own = [row for row in rows if row["loss"] == loss]
        eta, sigma_w = (np.array([row[k] for row in own]) for k in ("eta", "sigma_w"))
        trained = np.array([_trained(row) for row in own])
        (etas, row), (sigma_ws, column) = (
            np.unique(values, return_inverse=True) for values in (eta, sigma_w)
        )
        predicted = _predicted(settings, loss, etas, sigma_ws)[row, column]
        flipped = sum(1 for row in own if _trained(row) and row["negative"])
        lines.append(
            f"{loss.upper()}: {trained.sum()} of {len(own)} points reach 0.8 < J < 1.25; theory "
            f"tells {np.mean(trained == predicted):.1%} of the points right "
            f"({np.sum(trained & ~predicted)} train unforeseen, {np.sum(~trained & predicted)} do "
            f"not though foreseen; {flipped} of those that train have a negative multiplier)"
        )
        steep, foreseen = (_power(eta, sigma_w, good) for good in (trained, predicted))
        lines.append(
            f"{loss.upper()}: the largest η that trains goes as σ_w^{steep:.2f} from σ_w = "
            f"{_STEEP:g} on; on the same grid theory says σ_w^{foreseen:.2f}, η_0 "
            f"σ_w^{_power_of_eta_0(sigma_w, loss):.2f}"
        )
    return lines


def _power(eta: Any, sigma_w: Any, good: Any) -> float:
    """The slope of log η_max against log σ_w."""
    steep = np.unique(sigma_w[good & (sigma_w >= _STEEP)])
    if len(steep) < 2:
        return float("nan")
    largest = [eta[good & (sigma_w == each)].max() for each in steep]
    return float(np.polyfit(np.log(steep), np.log(largest), 1)[0])


def _power_of_eta_0(sigma_w: Any, loss: theory.gradients.Loss) -> float:
    steep = np.unique(sigma_w[sigma_w >= _STEEP])
    return float(np.polyfit(np.log(steep), np.log(theory.eta_0(steep, loss)), 1)[0])


def work(settings: Settings) -> float:
    """A point's share of the probes, which are what costs."""
    return float(settings["steps"] * multiplications(settings) / len(points(settings)))


FIGURE = Figure(
    name="relu-scan",
    shows="the plane of η and σ_w: where Algorithm 1 works",
    settings={"smoke": _SMOKE, "small": _PAPER, "paper": _PAPER},
    parameters=("loss", "eta", "sigma_w"),
    results=("j_low", "j_high", "negative"),
    points=points,
    compute=compute,
    draw=draw,
    findings=findings,
    together=together,
    work=work,
)
