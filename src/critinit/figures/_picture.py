"""The sheet a figure is drawn on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from critinit.plot import PlotError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

_PANEL = (4.6, 4.0)  # inches
_LETTERS = 15  # of the caption to an inch


def sheet(
    columns: int, title: str, caption: Sequence[str], *, rows: int = 1, **options: Any
) -> tuple[Picture, list[Axes]]:
    """An empty picture of panels in rows, with what they have in common above and below."""
    try:
        from matplotlib.figure import Figure as Picture
    except ImportError as error:
        raise PlotError(
            f"figures need Matplotlib ({error}). Install it with: pip install 'critinit[plot]'."
        ) from error
    size = (columns * _PANEL[0], rows * _PANEL[1] + 0.7)
    picture = Picture(figsize=size, layout="constrained")
    axes = picture.subplots(rows, columns, squeeze=False, **options)
    picture.suptitle(title)
    picture.supxlabel(_wrapped(caption, size[0]), fontsize=8.5, color="0.3")
    return picture, list(axes.flat)


def _wrapped(parts: Sequence[str], inches: float) -> str:
    """Parts side by side as long as they fit."""
    lines = [""]
    for part in parts:
        longer = f"{lines[-1]} · {part}" if lines[-1] else part
        if lines[-1] and len(longer) > inches * _LETTERS:
            lines.append(part)
        else:
            lines[-1] = longer
    return "\n".join(lines)
