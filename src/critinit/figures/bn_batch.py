"""Fig. bn_relu, right: J of Pre-BN networks against the batch size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from critinit.figures._bn_draws import MUS, average_over_draws, predicted
from critinit.figures._draws import data_words
from critinit.figures._figure import Figure, Point, Row, Settings
from critinit.figures._picture import sheet
from critinit.plot._style import STYLES

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

_ENOUGH = 128  # examples, as the paper says

_PAPER = {
    "data": "cifar10",
    "depth": 30,
    "width": 500,
    "sizes": [8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024],
    "draws": 50,
    "sigma_w": 2.0**0.5,
    "sigma_b": 0.0,
    "seed": 0,
}
_SMALL = _PAPER | {"draws": 10}
_SMOKE = _PAPER | {
    "data": "gaussian",
    "depth": 3,
    "width": 64,
    "sizes": [8, 16, 64],
    "draws": 3,
}


def points(settings: Settings) -> list[Point]:
    """All batch sizes, for each μ."""
    return [{"mu": mu, "batch": size} for mu in MUS for size in settings["sizes"]]


def compute(settings: Settings, points: Sequence[Point], device: torch.device) -> list[Row]:
    """J of the first and the deepest residual block, averaged over draws."""
    sigmas = {key: settings[key] for key in ("sigma_w", "sigma_b")}
    return [
        row for point in points for row in average_over_draws(settings, [point | sigmas], device)
    ]


def draw(settings: Settings, rows: Sequence[Row]) -> Picture:
    """J with its standard error, and the predictions for finite and infinite batches."""
    picture, axes = sheet(
        2,
        r"$J$ of Pre-BN ReLU networks against the batch size",
        [
            rf"$J^{{l,l+1}}$ at the deepest residual block, $l={settings['depth'] - 1}$",
            rf"$L={settings['depth']}$, $N_l={settings['width']}$, "
            rf"$\sigma_w={settings['sigma_w']:.3g}$, $\sigma_b={settings['sigma_b']:g}$",
            f"mean and standard error of {settings['draws']} draws",
            data_words(settings),
        ],
    )
    for ax, mu in zip(axes, MUS, strict=True):
        own = sorted((r for r in rows if r["mu"] == mu), key=lambda r: r["batch"])
        sizes = [row["batch"] for row in own]
        ax.errorbar(
            sizes,
            [row["j"] for row in own],
            [row["j_se"] for row in own],
            fmt="o",
            color=STYLES[1].colour,
            markersize=4,
            label="measured",
        )
        ax.plot(
            settings["sizes"],
            [predicted(settings, mu, size)[-1] for size in settings["sizes"]],
            color="black",
            linewidth=1.2,
            label="theory, finite $|B|$",
        )
        ax.axhline(
            predicted(settings, mu, None)[-1], color="0.4", dashes=(5, 3), linewidth=1.2,
            label=r"theory, $|B|\to\infty$",
        )  # fmt: skip
        ax.axvline(_ENOUGH, color="0.75", linewidth=0.8, zorder=0)
        ax.set(title=rf"$\mu={mu:g}$", xlabel="$|B|$", ylabel="$J$", xscale="log")
        ax.set_xticks(settings["sizes"][::4], [str(size) for size in settings["sizes"][::4]])
        ax.minorticks_off()
        ax.legend(loc="upper right")
    return picture


def findings(settings: Settings, rows: Sequence[Row]) -> list[str]:
    """The correction at a few sizes, and the distance from theory in standard errors."""
    lines = []
    for mu in MUS:
        own = sorted((r for r in rows if r["mu"] == mu), key=lambda r: r["batch"])
        limit = predicted(settings, mu, None)[-1]
        shown = [r for r in own if r["batch"] in (8, 32, _ENOUGH, 512)] or own
        finite = {r["batch"]: predicted(settings, mu, r["batch"])[-1] for r in own}
        parts = ", ".join(
            f"|B|={r['batch']}: {r['j'] / limit - 1:+.2%} ± {r['j_se'] / limit:.2%}, "
            f"predicted {finite[r['batch']] / limit - 1:+.2%}"
            for r in shown
        )
        lines.append(f"μ={mu:g}: J over that predicted for |B| → ∞, {limit:.4f}: {parts}")
        off = [(r["j"] - finite[r["batch"]]) / r["j_se"] for r in own]
        lines.append(
            f"μ={mu:g}: from the prediction for finite |B| the points are off by "
            f"{np.sqrt(np.mean(np.square(off))):.1f} standard errors in the root mean square"
        )
    return lines


def work(settings: Settings) -> float:
    """Multiplications for a point, on average."""
    network = settings["depth"] * float(np.mean(settings["sizes"])) * settings["width"] ** 2
    return float(settings["draws"] * network)


FIGURE = Figure(
    name="bn-batch",
    shows="J of BatchNorm networks against the batch size",
    settings={"smoke": _SMOKE, "small": _SMALL, "paper": _PAPER},
    parameters=("mu", "batch"),
    results=("j", "j_se", "j_first"),
    points=points,
    compute=compute,
    draw=draw,
    findings=findings,
    work=work,
)
