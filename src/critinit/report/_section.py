"""Sections that others add to a report: a title, some text, charts of lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from critinit.errors import CritinitError


class ReportError(CritinitError):
    """What was given cannot be made a report of."""


@dataclass(frozen=True)
class Line:
    """A line through points; ``name`` chooses its look, the same in every chart."""

    name: str
    x: Sequence[float]
    y: Sequence[float]

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise ReportError(
                f"line {self.name!r} has {len(self.x)} x and {len(self.y)} y: pass as many of one "
                "as of the other."
            )


@dataclass(frozen=True)
class Chart:
    """Lines over common axes, which ``x`` and ``y`` name; ``text`` says how to read it."""

    title: str
    x: str
    y: str
    lines: Sequence[Line]
    log: bool = False
    text: str = ""


@dataclass(frozen=True)
class Section:
    """A title, paragraphs (parted by empty lines) and charts.

    >>> curves = Chart("Accuracy", "step", "accuracy", [Line("tuned", [0, 100], [0.1, 0.8])])
    >>> Section("Training", "Both networks saw the same batches.", [curves]).title
    'Training'
    """

    title: str
    text: str = ""
    charts: Sequence[Chart] = ()
