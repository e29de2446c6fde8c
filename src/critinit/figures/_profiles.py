"""J and K by depth at several initializations: what both figures of profiles are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

import critinit
from critinit import Profile, plot
from critinit._state import random_state
from critinit.figures._draws import data_words, generator_of, images, seed_of
from critinit.figures._figure import Figure, Point, Row, Settings
from critinit.figures._figure import Scale as FigureScale
from critinit.figures._picture import sheet
from critinit.twin import Scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

_RESULTS = ("j", "j_se", "k", "correlation")
_JUDGING = 4  # batches to measure on, which nothing is tuned on
_MOST = 49_152  # examples to tune on: about all there are


@dataclass(frozen=True)
class Case:
    """A kind of network, and what is known of it.

    Attributes:
        title: Of the picture.
        starts: The initializations to compare, by name, as functions of the settings.
        tuned_from: The one that is tuned.
        scale: What gets a multiplier.
    """

    title: str
    starts: Mapping[str, Callable[[Settings], nn.Module]]
    tuned_from: str
    scale: Scale

    def figure(self, name: str, shows: str, settings: Mapping[FigureScale, Settings]) -> Figure:
        """As the registry wants it."""
        return Figure(
            name=name,
            shows=shows,
            settings=settings,
            parameters=("method",),
            results=_RESULTS,
            points=self.points,
            compute=self.compute,
            draw=self.draw,
            findings=self.findings,
            work=_work,
        )

    def points(self, settings: Settings) -> list[Point]:
        """Every initialization, and those that tuning finds."""
        return [{"method": name} for name in (*self.starts, *_SOLVERS)]

    def compute(
        self, settings: Settings, points: Sequence[Point], device: torch.device
    ) -> list[Row]:
        """The profile of each, on batches that nothing was tuned on."""
        return [self._measured(settings, point["method"], device) for point in points]

    def _measured(self, settings: Settings, method: str, device: torch.device) -> Row:
        judging, tuning = (part.to(device) for part in _batches(settings))
        with random_state(seed_of("weights", {}, settings["seed"])):
            start = self.starts[self.tuned_from if method in _SOLVERS else method]
            model = start(settings).to(device)
        if method in _SOLVERS:
            critinit.tune_(
                model,
                list(tuning),
                critinit.JKL(settings["lambda"]),
                _SOLVERS[method](settings),
                self.scale,
                probes=settings["probes"],
                generator=generator_of("probes", {}, settings["seed"]),
            )
        found = critinit.measure(model, list(judging), probes=settings["probes"])
        columns = found.apjn, found.apjn_se, found.kernel, found.correlation
        return dict(zip(_RESULTS, (column.tolist() for column in columns), strict=True))

    def draw(self, settings: Settings, rows: Sequence[Row]) -> Picture:
        """J and K by depth."""
        picture, axes = sheet(
            2,
            self.title,
            [
                "AutoInit: "
                rf"$\lambda={settings['lambda']:g}$, {settings['steps']} steps of SGD with "
                rf"$\eta={settings['eta']:g}$, $|B|={settings['batch']}$, "
                rf"$N_v={settings['probes']}$",
                "Sweep: one batch, to the same loss",
                f"measured on {_JUDGING} other batches",
                data_words(settings),
            ],
        )
        profiles = {row["method"]: _profile(row) for row in self._in_order(rows)}
        plot.comparison(profiles, axes[0], "apjn")
        plot.comparison(profiles, axes[1], "kernel")
        return picture

    def findings(self, settings: Settings, rows: Sequence[Row]) -> list[str]:
        """How far J of the blocks between the first and the last is from 1, and K from constant."""
        loss = critinit.JKL(settings["lambda"])
        lines = []
        for row in self._in_order(rows):
            j, k = np.array(row["j"][1:-1]), np.array(row["k"][1:-1])
            total = loss(torch.tensor(row["j"][:-1]), torch.tensor(row["k"][:-1]))
            lines.append(
                f"{row['method']}: J from {j.min():.3g} to {j.max():.3g} between the first block "
                f"and the last, {np.prod(j):.3g} over all of them; K from {k.min():.3g} to "
                f"{k.max():.3g}; J of the last block {row['j'][-1]:.3g}; "
                f"JKL but for it {float(total):.3g}"
            )
        return lines

    def _in_order(self, rows: Sequence[Row]) -> list[Row]:
        names = [*self.starts, *_SOLVERS]
        return sorted(rows, key=lambda row: names.index(row["method"]))


_SOLVERS: Mapping[str, Callable[[Settings], critinit.SGD | critinit.Sweep]] = {
    "AutoInit (SGD)": lambda s: critinit.SGD(s["eta"], s["steps"], eps=0.0),
    "AutoInit (Sweep)": lambda s: critinit.Sweep(),
}


def _batches(settings: Settings) -> tuple[Tensor, Tensor]:
    """Some to judge by and some to tune on, batches × examples × …."""
    size = settings["batch"]
    most = min(settings["steps"] + 1 + _JUDGING, _MOST // size)
    drawn = images(settings["data"], most * size, settings["seed"])
    batches = drawn.unflatten(0, (most, size))
    return batches[:_JUDGING], batches[_JUDGING:]


def _profile(row: Row) -> Profile:
    """As a plot wants it."""
    values = {name: torch.tensor(row[name], dtype=torch.float64) for name in _RESULTS}
    return Profile(
        names=[str(i) for i in range(len(row["j"]))],
        apjn=values["j"],
        apjn_se=values["j_se"],
        kernel=values["k"],
        correlation=values["correlation"],
        model="",
        method="vjp",
        span=1,
        probes=1,
        batches=1,
        batch_size=1,
    )


def _work(settings: Settings) -> float:
    """Passes through the network."""
    return float(settings["batch"] * settings["steps"] * (1 + settings["probes"]))
