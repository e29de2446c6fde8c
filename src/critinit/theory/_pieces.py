"""Where a function is smooth: it is cut at its kinks, and into panels of its own scale."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import NDArray

from critinit.theory._checks import Array
from critinit.theory._panels import (
    BETWEEN,
    INTERPOLATE,
    POINTS,
    TO_SERIES,
    place,
    series_value,
)
from critinit.theory.errors import ActivationError

_TOLERANCES = 1e-13, 1e-9, 1e-6  # the finest that the function's own rounding errors allow
_SUSPICIOUS = 2.0**-20  # relative width at which a rough panel seems to hold a kink
_FINEST = 2.0**-44  # relative width at which bisection stops
_BLURRED = 4e-12  # relative distance to which values alone locate a kink
_MOST_PANELS = 20_000

Rows = Callable[[Array], Array]
"""Takes points of any shape to a stack of values, the row of each function along axis 0."""


class Pieces:
    """Panels on which all of some functions are polynomials, as far as rounding errors show.

    The real line is cut at 0, ±1, ±2, ±4, …, and each cell is bisected until the polynomial
    through the Gauss nodes agrees with the function between them. So a kink is an edge, exactly
    where it lies at an edge anyway (0), else to 14 digits.
    """

    def __init__(self, rows: Rows, count: int) -> None:
        self._rows = rows
        self._size: Array = np.zeros(count)
        self._edges: Array = np.zeros(1)
        self._cells = 0
        self._series: Array = np.zeros((1, 0))

    def edges(self, reach: float) -> Array:
        """All edges up to the first cell's that covers [−reach, reach]."""
        while self._cells == 0 or self._edges[-1] < reach:
            self._extend()
        return self._edges

    def kinks(self, reach: float) -> Array:
        """Those edges within reach at which some derivative jumps."""
        edges = self.edges(reach)
        lower, middle, upper = edges[:-2], edges[1:-1], edges[2:]
        half = np.minimum(middle - lower, upper - middle) / 2
        rough = ~self._resolved(middle - half, middle + half, _TOLERANCES[0])
        return middle[rough & (np.abs(middle) <= reach)]

    def slope(self, points: Array) -> Array:
        """The derivative of the first function: that of the panel's polynomial."""
        edges = self.edges(float(np.abs(points).max(initial=0.0)))
        lower, upper = edges[:-1], edges[1:]
        if self._series.shape[1] != len(lower):
            values = self._rows(place(lower, upper, POINTS))[0]
            self._series = legendre.legder(TO_SERIES @ values.T) * (2 / (upper - lower))
        at = np.clip(np.searchsorted(edges, points) - 1, 0, len(lower) - 1)
        t = (2 * points - lower[at] - upper[at]) / (upper - lower)[at]
        return series_value(self._series[:, at], t)

    def _extend(self) -> None:
        """Add the next cell on either side."""
        inner = 0.0 if self._cells == 0 else 2.0 ** (self._cells - 1)
        outer = 2.0**self._cells
        ends = np.array([-outer, inner]), np.array([-inner, outer])
        seen = np.abs(self._rows(place(*ends, POINTS)))
        self._size = np.maximum(self._size, seen.max(axis=(1, 2)))
        left, right = self._cut(-outer, -inner), self._cut(inner, outer)
        self._edges = np.unique(np.concatenate([left, self._edges, right]) + 0.0)
        self._cells += 1

    def _cut(self, start: float, stop: float) -> Array:
        for tolerance in _TOLERANCES:
            edges = self._bisect(start, stop, tolerance)
            if edges is not None:
                return edges
        raise ActivationError(
            f"the activation is too rough between {start:g} and {stop:g}: not a smooth function "
            "with some kinks, even at a precision of 1e-6. Is it computed in half precision?"
        )

    def _bisect(self, start: float, stop: float, tolerance: float) -> Array | None:
        """Edges of resolved panels; None where there would be too many."""
        lower, upper = np.array([start]), np.array([stop])
        extent = max(abs(start), abs(stop))
        done, suspects = [np.array([start, stop])], np.zeros(0)
        total = 0
        while len(lower):
            total += len(lower)
            if total > _MOST_PANELS:
                return None
            rough = ~self._resolved(lower, upper, tolerance)
            lower, upper = lower[rough], upper[rough]
            middle = (lower + upper) / 2
            width = (stop - start) * 0.5 ** len(done)
            if width <= _SUSPICIOUS * extent:
                suspects = np.concatenate([middle, suspects])
            if width <= _FINEST * extent:
                break
            done.append(middle)
            lower, upper = np.concatenate([lower, middle]), np.concatenate([middle, upper])
        edges = np.unique(np.concatenate(done))
        kinks = _apart(suspects, _SUSPICIOUS * extent)
        return self._merge(edges, kinks, tolerance, _BLURRED * extent) if kinks else edges

    def _merge(self, edges: Array, kinks: list[float], tolerance: float, blur: float) -> Array:
        """Drop the panels that only led to a kink."""
        near = np.abs(edges[:, None] - np.array(kinks)).min(axis=1) <= blur
        near[[0, -1]] = False
        marks = sorted([*((e, False) for e in edges[~near].tolist()), *((k, True) for k in kinks)])
        kept = [marks[0][0]]
        for (edge, kink), (following, _) in pairwise(marks[1:]):
            whole = np.array([kept[-1]]), np.array([following])
            if kink or not self._resolved(*whole, tolerance)[0]:
                kept.append(edge)
        return np.array([*kept, marks[-1][0]])

    def _resolved(self, lower: Array, upper: Array, tolerance: float) -> NDArray[np.bool_]:
        nodes = self._rows(place(lower, upper, POINTS))
        between = self._rows(place(lower, upper, BETWEEN))
        error = np.abs(nodes @ INTERPOLATE.T - between).max(axis=2)
        return np.asarray((error <= tolerance * self._size[:, None]).all(axis=0))


def _apart(points: Array, distance: float) -> list[float]:
    """The points, first come first served, that keep their distance from one another."""
    found: list[float] = []
    for point in points.tolist():
        if all(abs(point - other) > distance for other in found):
            found.append(point)
    return found
