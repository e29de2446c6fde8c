"""Tables and numbers as people read them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

Points = Mapping[str, Mapping[str, Any]]
NONE = "–"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], words: bool = False) -> list[str]:
    """The first column to the left, the others to the right, unless they are words."""
    lines = [head, ["---", *["---" if words else "---:"] * (len(head) - 1)], *rows]
    return ["| " + " | ".join(line) + " |" for line in lines] + [""]


def number(value: Any) -> str:
    """Two or three digits; what JSON holds as text comes as it is."""
    if value is None or isinstance(value, str):
        return str(value or NONE)
    if not math.isfinite(value):
        return str(value)
    if abs(value) >= 99.5:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 9.95 else f"{value:.2f}"


def of(points: Points, prefix: str) -> dict[str, Mapping[str, Any]]:
    """The points of a section, by what their names say behind the prefix."""
    start = f"{prefix} | "
    return {key.removeprefix(start): p for key, p in points.items() if key.startswith(start)}


def between(values: Sequence[float]) -> str:
    """The median, and the least and the largest."""
    return f"{number(median(values))} ({number(min(values))} to {number(max(values))})"


def listed(words: Sequence[str]) -> str:
    """As in a sentence."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
