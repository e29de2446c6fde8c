"""What a figure has cost, and what it would cost at the scale of the paper."""

from __future__ import annotations

from collections.abc import Sequence

from critinit.figures._figure import Figure, Row, Scale, Settings


def cost(figure: Figure, scale: Scale, settings: Settings, rows: Sequence[Row]) -> str:
    """In words. Points of the smallest scale are too small to tell anything of the paper's."""
    each = sum(row["seconds"] for row in rows) / len(rows)
    took = (
        f"{len(rows)} points, {each:.2g} s each on one processor, {duration(each * len(rows))} "
        "in all"
    )
    if scale == "smoke" or figure.work is None:
        return took
    paper = figure.settings["paper"]
    worth = len(figure.points(paper)) * figure.work(paper) / figure.work(settings)
    return f"{took}; at the scale of the paper about {duration(each * worth)}"


def multiplications(settings: Settings) -> float:
    """In one pass of the batch through a perceptron."""
    return float(settings["depth"] * settings["batch"] * settings["width"] ** 2)


def duration(seconds: float) -> str:
    """As people say it.

    >>> duration(40), duration(700), duration(2e4)
    ('40 s', '12 min', '5.6 h')
    """
    if seconds < 100:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
