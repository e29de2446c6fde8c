"""A panel as SVG that follows the page's colours, with legend, caption and description."""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape

from critinit.plot._style import STYLES
from critinit.report._panel import Panel, Series

_WIDTH, _HEIGHT = 440, 268
_LEFT, _RIGHT, _TOP, _BOTTOM = 50, 10, 28, 42
_DENSE = 250  # points, from which a line shows them better than markers

_MARKERS = {
    "o": "M{x0} {y}a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0 -{d} 0z",
    "s": "M{x0} {y0}h{d}v{d}h-{d}z",
    "^": "M{x} {y0}L{x1} {y1}H{x0}z",
    "v": "M{x} {y1}L{x1} {y0}H{x0}z",
    "D": "M{x} {y0}L{x1} {y}L{x} {y1}L{x0} {y}z",
    "P": "M{x0} {y}H{x1}M{x} {y0}V{y1}",
    "X": "M{x0} {y0}L{x1} {y1}M{x1} {y0}L{x0} {y1}",
}


def figure(panel: Panel, name: str) -> str:
    """The whole figure; ``name`` is its id in the page."""
    legend = _legend(panel) if len(panel.series) > 1 else ""
    return (
        f'<figure class="panel"><h3>{escape(panel.title)}</h3>{legend}{svg(panel, name)}'
        f"<figcaption>{escape(panel.caption)}{_edge_note(panel)}</figcaption></figure>"
    )


def svg(panel: Panel, name: str) -> str:
    """The drawing."""
    canvas = _Canvas(panel)
    body = "".join([*canvas.axes(), *(canvas.drawn(s) for s in panel.series)])
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-labelledby="{name}-title {name}-desc">'
        f'<title id="{name}-title">{escape(panel.title)}</title>'
        f'<desc id="{name}-desc">{escape(panel.described())}</desc>'
        f"{body}</svg>"
    )


class _Canvas:
    """Where the numbers of a panel are on the drawing."""

    def __init__(self, panel: Panel) -> None:
        self.panel = panel
        self.x_low, self.x_high = panel.x_range
        self.y_low, self.y_high = panel.y_range

    def x(self, value: float) -> float:
        share = (value - self.x_low) / (self.x_high - self.x_low)
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        """Beyond the edge what is infinite or out of range is drawn at it."""
        share = min(1.0, max(0.0, (value - self.y_low) / (self.y_high - self.y_low)))
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

    def axes(self) -> Iterator[str]:
        right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
        yield from self._level()
        for value, label in self.panel.vertical_ticks:
            y = self.y(value)
            yield f'<path class="grid" d="M{_LEFT} {y:.1f}H{right}"/>'
            yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'
        for value, label in self.panel.horizontal_ticks:
            x = self.x(value)
            yield f'<path class="axis" d="M{x:.1f} {bottom}v4"/>'
            yield f'<text x="{x:.1f}" y="{bottom + 17}" text-anchor="middle">{label}</text>'
        yield f'<path class="axis" d="M{_LEFT} {bottom}H{right}"/>'
        yield f'<text class="label" x="4" y="14">{escape(self.panel.y)}</text>'
        yield (
            f'<text class="label" x="{(_LEFT + right) / 2:.0f}" y="{_HEIGHT - 5}" '
            f'text-anchor="middle">{escape(self.panel.x)}</text>'
        )

    def _level(self) -> Iterator[str]:
        if self.panel.level is None:
            return
        value, label = self.panel.level
        right, y = _WIDTH - _RIGHT, self.y(value)
        if self.panel.band:
            top, bottom = self.y(value + self.panel.band), self.y(value - self.panel.band)
            yield (
                f'<rect class="band" x="{_LEFT}" y="{top:.1f}" width="{right - _LEFT}" '
                f'height="{bottom - top:.1f}"/>'
            )
        yield f'<path class="level" d="M{_LEFT} {y:.1f}H{right}"/>'
        yield f'<text class="label" x="{right}" y="14" text-anchor="end">— {escape(label)}</text>'

    def drawn(self, series: Series) -> str:
        style = STYLES[series.style]
        parts = [f'<g class="s{series.style}{"" if style.filled else " hollow"}">']
        if series.joined:
            dash = " ".join(f"{length:g}" for length in style.dash)
            runs = [self._path(run) for run in series.runs() if len(run) > 1]
            parts += [f'<path class="line" stroke-dasharray="{dash}" d="{"".join(runs)}"/>']
        bars = "".join(self._bars(series))
        parts += [f'<path class="bar" d="{bars}"/>'] if bars else []
        parts += self._markers(series)
        return "".join([*parts, "</g>"])

    def _path(self, run: list[tuple[float, float]]) -> str:
        return "M" + "L".join(f"{self.x(x):.1f} {self.y(y):.1f}" for x, y in run)

    def _bars(self, series: Series) -> Iterator[str]:
        for x, y, low, high in zip(series.x, series.y, series.low, series.high, strict=False):
            if math.isfinite(y) and not (math.isnan(low) or math.isnan(high)):
                yield f"M{self.x(x):.1f} {self.y(low):.1f}V{self.y(high):.1f}"

    def _markers(self, series: Series) -> Iterator[str]:
        size = _size(len(series.x))
        for i, (x, y) in enumerate(zip(series.x, series.y, strict=True)):
            if math.isnan(y) or (math.isfinite(y) and not size):
                continue
            shape = STYLES[series.style].marker if math.isfinite(y) else "v" if y < 0 else "^"
            faint = "faint" if i < series.faint else ""
            kind = f"{faint} edge".strip() if math.isinf(y) else faint
            tip = f"<title>{escape(series.tips[i])}</title>" if series.tips else ""
            drawing = marker(shape, self.x(x), self.y(y), size if math.isfinite(y) else 4.0)
            yield f'<path class="mark {kind}" d="{drawing}">{tip}</path>'


def _size(points: int) -> float:
    """Half the width of a marker; 0 for none."""
    if points > _DENSE:
        return 0.0
    return 3.4 if points <= 30 else 2.4 if points <= 80 else 1.5


def marker(shape: str, x: float, y: float, r: float) -> str:
    """The outline of a marker of half width ``r``."""
    numbers = {"x": x, "y": y, "x0": x - r, "x1": x + r, "y0": y - r, "y1": y + r}
    return _MARKERS.get(shape, "").format(
        r=f"{r:g}", d=f"{2 * r:g}", **{key: f"{value:.1f}" for key, value in numbers.items()}
    )


def swatch(style: int) -> str:
    """A sample of a line, for legends and tables."""
    look = STYLES[style]
    dash = " ".join(f"{length:g}" for length in look.dash)
    hollow = "" if look.filled else " hollow"
    return (
        f'<svg class="swatch s{style}{hollow}" viewBox="0 0 34 12" aria-hidden="true">'
        f'<path class="line" stroke-dasharray="{dash}" d="M1 6H33"/>'
        f'<path class="mark" d="{marker(look.marker, 17, 6, 3.6)}"/></svg>'
    )


def _legend(panel: Panel) -> str:
    items = (f"<li>{swatch(s.style)}{escape(s.name)}</li>" for s in panel.series)
    return f'<ul class="legend">{"".join(items)}</ul>'


def _edge_note(panel: Panel) -> str:
    values = {y for s in panel.series for y in s.y if math.isinf(y)}
    notes = []
    if -math.inf in values:
        notes.append(f" ▼ at the lower edge: {escape(panel.zero)}.")
    if math.inf in values:
        notes.append(" ▲ at the upper edge: infinite.")
    return "".join(notes)
