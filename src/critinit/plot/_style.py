"""One look for one thing, in every picture: a colour, a marker and a line, for each name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Style:
    """How a line looks.

    Attributes:
        colour: On white; at least 4.5 : 1 against it.
        on_dark: On a dark page.
        marker: As Matplotlib calls it.
        dash: Lengths drawn and left out in turn; empty for an unbroken line.
        filled: Whether the markers are.
    """

    colour: str
    on_dark: str
    marker: str
    dash: tuple[float, ...]
    filled: bool = True


STYLES = (
    Style("#475569", "#b6c2d2", "o", (4, 2), filled=False),
    Style("#0b62c4", "#6fb1ff", "s", ()),
    Style("#00724e", "#3fc795", "^", (6, 2)),
    Style("#a8327a", "#f08cc8", "D", (6, 2, 1, 2)),
    Style("#7d5a00", "#e3b341", "v", (2, 2)),
    Style("#0e7490", "#4fd1e5", "P", (8, 3), filled=False),
    Style("#b3261e", "#ff8f85", "X", (3, 1, 1, 1)),
    Style("#1f2328", "#f0f3f6", "", (1, 2)),
)

_KNOWN = {
    "before": 0,
    "measured": 0,
    "default": 0,
    "after": 1,
    "tuned": 1,
    "autoinit": 1,
    "kaiming": 2,
    "orthogonal": 3,
    "lsuv": 4,
    "bias": 5,
    "weight": 1,
    "other": 6,
    "smallest": 5,
    "largest": 6,
    "theory": 7,
}


def styles(names: Sequence[str]) -> list[Style]:
    """The look of each name: its own for those known, one that is left for the others.

    >>> [style.marker for style in styles(["before", "after", "mine"])]
    ['o', 's', '^']
    >>> styles(["AutoInit"]) == styles(["after"])
    True
    """
    return [STYLES[i] for i in indices(names)]


def indices(names: Sequence[str]) -> list[int]:
    """The places of the names' looks in `STYLES`."""
    chosen: list[int] = []
    kept = [_KNOWN.get(name.lower()) for name in names]
    for own in kept:
        free = [i for i in range(len(STYLES) - 1) if i not in chosen and i not in kept]
        if own is not None and own not in chosen:
            chosen.append(own)
        else:
            chosen.append(free[0] if free else len(chosen) % len(STYLES))
    return chosen
