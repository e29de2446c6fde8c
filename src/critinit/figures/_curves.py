"""Accuracy by epoch, from the folders that trainings leave: both figures of training."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from critinit.figures._figure import Figure, Point, Row, Settings
from critinit.figures._picture import sheet
from critinit.figures.errors import FigureError
from critinit.plot._style import styles

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

_SHOWN = ("train_accuracy", "test_accuracy")
_METRICS, _RUN = "metrics.csv", "run.json"


@dataclass(frozen=True)
class Curves:
    """The runs of one kind of network in a folder of runs.

    Attributes:
        title: Of the picture.
        model: How the names of its models begin.
    """

    title: str
    model: str

    def points(self, settings: Settings) -> list[Point]:
        """Each run, as far as it has come: a run that has gone on since is another point."""
        folder = Path(settings["runs"])
        runs = [path.parent for path in sorted(folder.rglob(_METRICS)) if self._is_own(path)]
        if not runs:
            raise FigureError(
                f"{folder} holds no runs of {self.model}: train some, such as by `critinit train "
                "RECIPE`, or name the folder that their folders are in."
            )
        return [
            {"run": run.relative_to(folder).as_posix(), "epochs": len(_metrics(run))}
            for run in runs
        ]

    def compute(
        self, settings: Settings, points: Sequence[Point], device: torch.device
    ) -> list[Row]:
        """What was run, and its accuracies after each epoch."""
        return [_read(Path(settings["runs"]) / point["run"], point["epochs"]) for point in points]

    def draw(self, settings: Settings, rows: Sequence[Row]) -> Picture:
        """The best run of each initialization."""
        picture, (ax,) = sheet(
            1,
            self.title,
            ["of each initialization the run with the best last test accuracy"],
        )
        best = _best(rows)
        for (init, row), style in zip(best.items(), styles(list(best)), strict=True):
            for key, line, word in zip(_SHOWN, ("dotted", "solid"), ("train", "test"), strict=True):
                y = _list(row[key])
                ax.plot(
                    range(1, len(y) + 1), y, color=style.colour, linestyle=line,
                    marker=style.marker if len(y) <= 30 else "", markersize=4,
                    label=f"{init}, {word}",
                )  # fmt: skip
        ax.set(xlabel="epoch", ylabel="accuracy")
        ax.legend(fontsize=8)
        return picture

    def findings(self, settings: Settings, rows: Sequence[Row]) -> list[str]:
        """The accuracies of the best runs."""
        lines = []
        for init, row in _best(rows).items():
            runs = {each["run"] for each in rows if each["init"] == init}
            test, train = _list(row["test_accuracy"]), _list(row["train_accuracy"])
            lines.append(
                f"{init}: test accuracy {test[-1]:.1%} (training {train[-1]:.1%}) after "
                f"{row['epochs']} epochs of {row['recipe']}, the best of {len(runs)} runs"
            )
        return lines

    def figure(self, name: str, shows: str) -> Figure:
        """As the registry wants it; a run has no scale but its own."""
        settings: Settings = {"runs": "runs"}
        return Figure(
            name=name,
            shows=shows,
            settings={"smoke": settings, "small": settings, "paper": settings},
            parameters=("run", "epochs"),
            results=("recipe", "init", *_SHOWN),
            points=self.points,
            compute=self.compute,
            draw=self.draw,
            findings=self.findings,
        )

    def _is_own(self, metrics: Path) -> bool:
        recipe = _described(metrics.parent)["recipe"]
        return bool(recipe["model"].startswith(self.model) and _metrics(metrics.parent))


def _described(run: Path) -> dict[str, Any]:
    try:
        described: dict[str, Any] = json.loads((run / _RUN).read_text(encoding="utf-8"))
        return {"recipe": described["recipe"], "init": described["init"]}
    except (OSError, ValueError, KeyError) as error:
        raise FigureError(f"{run} holds metrics, but no readable {_RUN} ({error}).") from error


def _metrics(run: Path) -> list[dict[str, str]]:
    with open(run / _METRICS, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    lacking = [name for name in _SHOWN if rows and name not in rows[0]]
    if lacking:
        raise FigureError(f"{run / _METRICS} lacks the columns {', '.join(lacking)}.")
    return rows


def _read(run: Path, epochs: int) -> Row:
    described, metrics = _described(run), _metrics(run)[:epochs]
    accuracies = {key: [float(row[key]) for row in metrics] for key in _SHOWN}
    return {"recipe": described["recipe"]["name"], "init": described["init"], **accuracies}


def _best(rows: Sequence[Row]) -> dict[str, Row]:
    """The latest state of each run, then the best run of each initialization."""
    latest: dict[str, Row] = {}
    for row in sorted(rows, key=lambda row: row["epochs"]):
        latest[row["run"]] = row
    best: dict[str, Row] = {}
    for row in sorted(latest.values(), key=lambda row: _list(row["test_accuracy"])[-1]):
        best[row["init"]] = row
    return dict(sorted(best.items()))


def _list(value: Any) -> list[float]:
    """A list of one number is kept as a number."""
    return value if isinstance(value, list) else [value]
