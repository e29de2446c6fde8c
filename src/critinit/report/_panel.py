"""A chart as numbers: what is drawn, on which axes, before any of it becomes SVG."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from critinit.plot._ticks import linear_ticks, log_ticks, tick_label, written_log

Tick = tuple[float, str]
_LEAST_DECADES = 0.62  # so that noise around 1 does not look like structure
_PAD = 0.05


@dataclass(frozen=True)
class Series:
    """One line. On a logarithmic axis ``y``, ``low`` and ``high`` are decimal logarithms.

    Attributes:
        name: As in the legend.
        style: Its place in `critinit.plot._style.STYLES`.
        x: Where the points are.
        y: Their values; infinite ones are marked at the edge, and NaN leaves a gap.
        low: Lower ends of the error bars; empty for none.
        high: Upper ends.
        tips: What a pointer that rests on a point is told; empty for nothing.
        joined: Whether a line goes through the points.
        faint: How many points at the beginning do not count, and are drawn lightly.
    """

    name: str
    style: int
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    tips: Sequence[str] = ()
    joined: bool = True
    faint: int = 0

    def runs(self) -> Iterator[list[tuple[float, float]]]:
        """The points that a line joins, parted where a value is missing."""
        run: list[tuple[float, float]] = []
        for i, point in enumerate(zip(self.x, self.y, strict=True)):
            if math.isfinite(point[1]) and i >= self.faint:
                run.append(point)
            elif run:
                yield run
                run = []
        if run:
            yield run


@dataclass(frozen=True)
class Panel:
    """A chart of some series over common axes.

    Attributes:
        title: What it shows.
        caption: How to read it.
        x: Label of the horizontal axis.
        y: Label of the vertical axis.
        series: The lines.
        log: Whether the vertical axis is logarithmic.
        level: Where a reference line goes, and what it is called.
        band: Half the height of the band around it that is as good as on it.
        span: What the vertical axis covers at least.
        x_ticks: Where the horizontal axis is marked; None for round numbers.
        zero: What a point at the lower edge means.
    """

    title: str
    caption: str
    x: str
    y: str
    series: Sequence[Series]
    log: bool = True
    level: Tick | None = None
    band: float = 0.0
    span: tuple[float, float] | None = None
    x_ticks: Sequence[Tick] | None = field(default=None)
    zero: str = "zero"

    @property
    def x_range(self) -> tuple[float, float]:
        """From the first point to the last, with half a step of room."""
        xs = [x for s in self.series for x in s.x]
        low, high = min(xs, default=0.0), max(xs, default=1.0)
        room = 0.5 if high - low < 1 else _PAD / 2 * (high - low)
        return low - room, high + room

    @property
    def y_range(self) -> tuple[float, float]:
        """Everything that is finite, and what is to be covered at least."""
        ys = [*self._heights(), *(self.span or ())]
        if self.level:
            ys += [self.level[0] - self.band, self.level[0] + self.band]
        low, high = min(ys, default=0.0), max(ys, default=1.0)
        least = _LEAST_DECADES if self.log else max(1e-9, 0.05 * abs(high))
        room = max(_PAD * (high - low), (least - (high - low)) / 2)
        return low - room, high + room

    def _heights(self) -> Iterator[float]:
        reach = 0.5 if self.log else math.inf  # an error bar down to zero is cut off
        for s in self.series:
            yield from (y for y in s.y if math.isfinite(y))
            for y, low, high in zip(s.y, s.low, s.high, strict=False):
                if math.isfinite(y):
                    yield max(low, y - reach) if not math.isnan(low) else y
                    yield min(high, y + reach) if not math.isnan(high) else y

    @property
    def horizontal_ticks(self) -> list[Tick]:
        """Marks along the horizontal axis, at whole numbers where all points are there."""
        low, high = self.x_range
        if self.x_ticks is not None:
            return list(self.x_ticks)
        whole = all(float(x).is_integer() for s in self.series for x in s.x)
        return [(t, f"{t:g}") for t in linear_ticks(low, high, whole)]

    @property
    def vertical_ticks(self) -> list[Tick]:
        """Marks along the vertical axis."""
        ticks, label = (log_ticks, tick_label) if self.log else (linear_ticks, "{:g}".format)
        return [(t, label(t)) for t in ticks(*self.y_range)]

    def described(self) -> str:
        """The chart in words, for those who do not see it."""
        axis = "logarithmic" if self.log else "linear"
        parts = [f"{self.y} over {self.x}, {axis} scale."]
        for s in self.series:
            finite = [y for y in s.y if math.isfinite(y)]
            if finite:
                low, high = (self.written(y) for y in (min(finite), max(finite)))
                parts.append(f"{s.name}: {len(s.y)} points, from {low} to {high}.")
            if len(finite) < len(s.y):
                missing = len(s.y) - len(finite)
                parts.append(f"{s.name}: {missing} values are zero, infinite or unknown.")
        return " ".join(parts)

    def written(self, y: float) -> str:
        """A value of the vertical axis as a number."""
        return written_log(y) if self.log else f"{y:.3g}"
