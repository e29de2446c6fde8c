"""Laws of one standardized variable, with quadrature that keeps clear of given breakpoints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from critinit.theory._checks import Array
from critinit.theory._panels import composite

Function = Callable[[Array], Array]
_STEP = 2.5  # width of panels, in standard deviations
_CHUNK = 2_000_000


class Law(Protocol):
    """A symmetric law of zero mean and unit variance, as the image of a smooth density."""

    def edges(self) -> Array:
        """Panels, in the parameter t, that resolve the density."""
        ...

    def value(self, t: Array) -> Array:
        """The variable y."""
        ...

    def parameter(self, y: Array) -> Array:
        """The t of y, or the end of the range that it lies beyond."""
        ...

    def density(self, t: Array) -> Array:
        """The density of t, up to a constant."""
        ...


@dataclass(frozen=True)
class Gaussian:
    """``N(0, 1)``, up to ``reach`` standard deviations."""

    reach: float = 10.0

    def edges(self) -> Array:
        """Equal panels."""
        panels = 2 * int(np.ceil(self.reach / _STEP))
        return np.linspace(-self.reach, self.reach, panels + 1)

    def value(self, t: Array) -> Array:
        """``y = t``."""
        return t

    def parameter(self, y: Array) -> Array:
        """``t = y``."""
        return np.clip(y, -self.reach, self.reach)

    def density(self, t: Array) -> Array:
        """``exp(−t²/2)``."""
        return np.exp(-0.5 * t**2)


@dataclass(frozen=True)
class Sphere:
    """A coordinate of a uniform point on the sphere of radius √n in n ≥ 2 dimensions.

    ``y = √n sin t`` with density ``cos^{n−2} t``; Gaussian for n → ∞.
    """

    dimensions: int

    def edges(self) -> Array:
        """Equal panels where the density is not negligible."""
        end = min(np.pi / 2, 12 / np.sqrt(max(self.dimensions - 2, 1)))
        panels = 2 * int(np.ceil(end * np.sqrt(self.dimensions) / _STEP))
        return np.linspace(-end, end, panels + 1)

    def value(self, t: Array) -> Array:
        """``y = √n sin t``."""
        return np.asarray(self.dimensions**0.5 * np.sin(t))

    def parameter(self, y: Array) -> Array:
        """``t = arcsin(y/√n)``."""
        end = self.edges()[-1]
        t = np.arcsin(np.clip(y / self.dimensions**0.5, -1.0, 1.0))
        return np.asarray(np.clip(t, -end, end))

    def density(self, t: Array) -> Array:
        """``cos^{n−2} t``."""
        return np.asarray(np.cos(t) ** (self.dimensions - 2))


def rule(law: Law, breaks: Array) -> tuple[Array, Array]:
    """Values of y and their probabilities; no panel holds one of ``breaks`` in its inside.

    With ``breaks`` of shape (…, n) there is a rule for each row.
    """
    cuts = law.parameter(breaks)
    edges = np.broadcast_to(law.edges(), (*cuts.shape[:-1], len(law.edges())))
    t, weights = composite(np.sort(np.concatenate([edges, cuts], axis=-1), axis=-1))
    weights = weights * law.density(t)
    return law.value(t), weights / weights.sum(axis=-1, keepdims=True)


def smoothed(f: Function, breaks: Array, mean: Array, spread: Array, law: Law) -> Array:
    """``E[f(mean + spread · y)]`` for each mean and spread; f is smooth between its breaks."""
    size = max(1, _CHUNK // ((len(breaks) + len(law.edges())) * 20))
    parts = []
    for first in range(0, len(mean), size):
        m, s = mean[first : first + size, None], spread[first : first + size, None]
        y, weights = rule(law, (breaks - m) / np.maximum(s, 1e-200))
        parts.append((f(m + s * y) * weights).sum(axis=-1))
    return np.concatenate(parts)
