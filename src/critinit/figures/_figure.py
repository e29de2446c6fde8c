"""What a figure is: points of a plane or line, how each is computed, and how all are drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch

from critinit.figures.errors import FigureError
from critinit.models._options import suggestion

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

Scale = Literal["smoke", "small", "paper"]
Settings = Mapping[str, Any]
Point = dict[str, Any]
Row = dict[str, Any]


def one_by_one(
    settings: Settings, points: Sequence[Point], device: torch.device
) -> list[list[Point]]:
    """Every point by itself."""
    return [[point] for point in points]


def of_a_kind(points: Sequence[Point], key: str, size: int | None = None) -> list[list[Point]]:
    """Groups that agree in ``key``, of at most ``size`` points.

    >>> of_a_kind([{"mu": 0, "x": 1}, {"mu": 1, "x": 1}, {"mu": 0, "x": 2}], "mu")
    [[{'mu': 0, 'x': 1}, {'mu': 0, 'x': 2}], [{'mu': 1, 'x': 1}]]
    """
    kinds: dict[Any, list[Point]] = {}
    for point in points:
        kinds.setdefault(point[key], []).append(point)
    groups = kinds.values()
    return [g[i : i + (size or len(g))] for g in groups for i in range(0, len(g), size or len(g))]


@dataclass(frozen=True)
class Figure:
    """A figure as parts that know nothing of files, workers and clusters.

    Attributes:
        name: As the command line calls it.
        shows: What it shows, in a line.
        settings: What all points have in common, for each scale. A value of another type than
            number, text, list or None cannot be kept.
        parameters: The columns that tell points apart.
        results: The columns that are computed.
        points: All points, from the settings.
        compute: The results of some points: a pure function of settings and points. A row for
            each, in their order.
        draw: The picture of settings and rows. Rows may be missing.
        findings: What came out, as lines of text with numbers; also of rows that are not all.
        together: Puts those points into one group that are cheaper if computed at once.
        work: How much a point costs at these settings, in any unit; None where scales are alike.
    """

    name: str
    shows: str
    settings: Mapping[Scale, Settings]
    parameters: tuple[str, ...]
    results: tuple[str, ...]
    points: Callable[[Settings], list[Point]]
    compute: Callable[[Settings, Sequence[Point], torch.device], Iterable[Row]]
    draw: Callable[[Settings, Sequence[Row]], Picture]
    findings: Callable[[Settings, Sequence[Row]], list[str]]
    together: Callable[[Settings, Sequence[Point], torch.device], list[list[Point]]] = one_by_one
    work: Callable[[Settings], float] | None = None

    def settled(self, scale: Scale, changes: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of a scale, with changes."""
        if scale not in self.settings:
            raise FigureError(f"scale={scale!r} is unknown. Use 'smoke', 'small' or 'paper'.")
        settings = dict(self.settings[scale])
        for key, value in changes.items():
            if key not in settings:
                raise FigureError(
                    f"{self.name} has no setting {key!r}. {suggestion(key, settings)}"
                )
            settings[key] = self._checked(key, value, settings[key])
        return settings

    def _checked(self, key: str, value: Any, usual: Any) -> Any:
        """In the type of the usual value."""
        if isinstance(usual, list) and isinstance(value, str | int | float):
            value = value.split(",") if isinstance(value, str) else [value]
        if isinstance(usual, list) and isinstance(value, list | tuple):
            return list(value)
        if isinstance(usual, float) and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        if type(value) is not type(usual):
            raise FigureError(
                f"{self.name}: {key}={value!r} will not do; {usual!r} is what it is otherwise."
            )
        return value
