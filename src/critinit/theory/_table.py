"""The moments of an activation, tabulated: for recursions over many K at once."""

from __future__ import annotations

import numpy as np

from critinit.theory._checks import Array
from critinit.theory.activations import Activation

_LOW, _HIGH, _PER_DECADE = -8, 6, 24


class Tabulated(Activation):
    """Cubic splines of ``log E[φ²]`` and ``log E[φ'²]`` in log K; power laws beyond the table.

    Their values and slopes at the nodes are exact, and the derivatives are those of the splines,
    so that a gradient is the gradient of the tabulated recursion.
    """

    def __init__(self, activation: Activation) -> None:
        super().__init__(activation.function)
        self._nodes = np.linspace(_LOW, _HIGH, (_HIGH - _LOW) * _PER_DECADE + 1) * np.log(10)
        k = np.exp(self._nodes)
        second, slope = activation.second_moment(k), activation.slope_moment(k)
        self._second = np.log(second), k * activation.chi_k(k) / second
        self._slope = np.log(slope), k * activation.chi_delta(k) / slope

    def _second_moment(self, kernel: Array) -> Array:
        return np.exp(self._spline(kernel, *self._second)[0])

    def _slope_moment(self, kernel: Array) -> Array:
        return np.exp(self._spline(kernel, *self._slope)[0])

    def _moment_slope(self, kernel: Array) -> Array:
        value, rise = self._spline(kernel, *self._second)
        return np.exp(value) * rise / kernel

    def _slope_moment_slope(self, kernel: Array) -> Array:
        value, rise = self._spline(kernel, *self._slope)
        return np.exp(value) * rise / kernel

    def _spline(self, kernel: Array, values: Array, rises: Array) -> tuple[Array, Array]:
        """The Hermite spline and its derivative in log K."""
        log = np.log(kernel)
        inside = np.clip(np.nan_to_num(log), self._nodes[0], self._nodes[-1])
        width = self._nodes[1] - self._nodes[0]
        at = np.minimum(((inside - self._nodes[0]) / width).astype(int), len(values) - 2)
        t = (inside - self._nodes[at]) / width
        low, high = values[at], values[at + 1]
        left, right = rises[at] * width, rises[at + 1] * width
        square, cubic = 3 * (high - low) - 2 * left - right, left + right - 2 * (high - low)
        rise = (left + t * (2 * square + 3 * t * cubic)) / width
        return low + t * (left + t * (square + t * cubic)) + rise * (log - inside), rise
