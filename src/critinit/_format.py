"""Numbers, names and bars as people read them, in text and in HTML."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

from torch import Tensor

BAR = 10  # half the width of the bar that shows log J
_FULL_BAR = math.log(10)
_LONGEST_NAME = 24


def numbers(values: Iterable[float]) -> list[float | None]:
    """For JSON, which knows neither infinity nor NaN."""
    return [x if math.isfinite(x) else None for x in map(float, values)]


def short(value: Tensor, width: int = 9) -> str:
    """Three digits; a dash where there is no number."""
    x = float(value)
    return f"{'-':>{width}}" if math.isnan(x) else f"{x:>{width}.3g}"


def shortened(name: str, longest: int = _LONGEST_NAME) -> str:
    """The end of a name tells blocks apart, the beginning where they are."""
    if len(name) <= longest:
        return name
    return f"{name[: longest // 3]}…{name[-(longest - longest // 3 - 1) :]}"


def cosine(value: Tensor) -> str:
    """Two decimals; a dash where there is no number."""
    x = float(value)
    return f"{'-':>5}" if math.isnan(x) else f"{x:>5.2f}"


def bar(log_j: float) -> str:
    """A bar to the left for vanishing, to the right for exploding; full at a factor of ten."""
    length = round(BAR * max(-1.0, min(1.0, log_j / _FULL_BAR)))
    left = "▒" * -length if length < 0 else ""
    right = "█" * length if length > 0 else ""
    return f"{left:>{BAR}}│{right:<{BAR}}"


def power(log: float) -> str:
    """``exp(log)``, also where it is beyond what a float can hold."""
    return f"{math.exp(log):.3g}" if log < 10 else f"10^{log / math.log(10):.0f}"


def html_table(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A plain table, for notebooks."""
    cells = "".join(f"<th>{escape(h)}</th>" for h in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell.strip())}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    return f"<table><caption>{escape(caption)}</caption><tr>{cells}</tr>{body}</table>"
