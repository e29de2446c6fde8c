"""Fig. relu_jac, left, and its twin in the appendix: one step of Algorithm 1 at η_1-step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

import critinit
from critinit._state import random_state
from critinit.figures._cost import multiplications
from critinit.figures._draws import data_words, flat_batch, generator_of, seed_of
from critinit.figures._figure import Figure, Point, Row, Settings
from critinit.figures._picture import sheet
from critinit.models import mlp

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

_LOSSES = {"jll": critinit.JLL(), "jsl": critinit.JSL()}

_PAPER = {
    "data": "cifar10",
    "depth": 10,
    "width": 500,
    "batch": 256,
    "sigma_w": [0.5, 3.0, 26],
    "seed": 0,
}
_SMOKE = _PAPER | {"data": "gaussian", "depth": 3, "width": 64, "batch": 32, "sigma_w": [0.5, 3, 3]}


def points(settings: Settings) -> list[Point]:
    """All σ_w, with each loss."""
    grid = np.linspace(*settings["sigma_w"]).round(6).tolist()
    return [{"loss": loss, "sigma_w": sigma_w} for loss in _LOSSES for sigma_w in grid]


def compute(settings: Settings, points: Sequence[Point], device: torch.device) -> Iterator[Row]:
    """J of the blocks ``1 … L`` before and after the step, each by one fresh Gaussian probe."""
    x = flat_batch(settings, settings["batch"]).to(device)
    descent = critinit.SGD("one-step", steps=1, eps=0.0)
    for point in points:
        with random_state(seed_of("weights", point, settings["seed"])):
            model = mlp(
                settings["width"],
                settings["depth"],
                inputs=x.shape[1],
                sigma_w=point["sigma_w"],
            )
        probes = generator_of("probes", point, settings["seed"])
        result = critinit.tune_(
            model.to(device), x, _LOSSES[point["loss"]], descent, generator=probes
        )
        before, after = result.history
        yield {"j_before": before.apjn[1:], "j_after": after.apjn[1:]}


def draw(settings: Settings, rows: Sequence[Row]) -> Picture:
    """J of every block, before the step in grey and after it in colour."""
    from matplotlib import colormaps

    picture, axes = sheet(
        2,
        r"ReLU networks after one step of Algorithm 1 with $\eta_{1\text{-}step}$",
        [
            f"$L={settings['depth']}$, $N_l={settings['width']}$, $|B|={settings['batch']}$",
            "one probe a step",
            data_words(settings),
        ],
        sharey=True,
    )
    depth = settings["depth"]
    for ax, loss in zip(axes, _LOSSES, strict=True):
        own = sorted((r for r in rows if r["loss"] == loss), key=lambda r: r["sigma_w"])
        sigma_w = [row["sigma_w"] for row in own]
        before, after = (
            np.array([row[k] for row in own]).reshape(-1, depth) for k in ("j_before", "j_after")
        )
        ax.axhline(1.0, color="0.35", linewidth=0.9)
        for block in range(depth):
            colour = colormaps["viridis"](block / max(1, depth - 1) * 0.9)
            ends = block in (0, depth - 1)
            ax.plot(sigma_w, before[:, block], color="0.75", linewidth=0.8,
                    label="$t=0$, every $l$" if block == 0 else None)  # fmt: skip
            ax.plot(sigma_w, after[:, block], "o-", color=colour, linewidth=0.8, markersize=3,
                    label=f"$t=1$, $l={block + 1}$" if ends else None)  # fmt: skip
        ax.set(title=loss.upper(), xlabel=r"$\sigma_w$", ylim=(0.8, 1.25))
        ax.legend()
    axes[0].set_ylabel("$J^{l,l+1}$")
    return picture


def findings(settings: Settings, rows: Sequence[Row]) -> list[str]:
    """How far from 1 J is after the step."""
    lines = []
    for loss in _LOSSES:
        before, after = (
            np.abs(np.log([r[key] for r in rows if r["loss"] == loss]))
            for key in ("j_before", "j_after")
        )
        hidden = after[:, :-1]  # the output block is narrow, and its estimate of J noisy
        lines.append(
            f"{loss.upper()}: largest |log J| {before.max():.2f} before the step; after it "
            f"{after.max():.3f}, on average {after.mean():.3f}; without the output block "
            f"{hidden.max():.3f} and {hidden.mean():.3f}"
        )
    return lines


FIGURE = Figure(
    name="relu-one-step",
    shows="J after one step with the rate that should bring it to 1",
    settings={"smoke": _SMOKE, "small": _PAPER, "paper": _PAPER},
    parameters=("loss", "sigma_w"),
    results=("j_before", "j_after"),
    points=points,
    compute=compute,
    draw=draw,
    findings=findings,
    work=multiplications,
)
