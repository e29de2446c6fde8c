"""Gaussian expectations of an activation: all that infinite width asks of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from critinit.theory._checks import Array, determinant, non_negative, variance
from critinit.theory._function import ScalarFunction
from critinit.theory._laws import Function, Gaussian, rule, smoothed
from critinit.theory.errors import TheoryError

_NEGLIGIBLE = 1e-17
_LIMIT = 1e-10  # K at which φ' and its products have reached their limit K → 0
_SLOPE_LIMIT = 1e-8  # the same for a difference quotient of φ'²
_FLAT = 1e-200  # a slope this small is none
_SMOOTHING = np.linspace(-10.0, 10.0, 9)


class Activation:
    """``E[…]`` over ``u ~ N(0, K)`` for any φ, by quadrature on panels that end at its kinks.

    K may be a number or an array. Panels have both the scale of the Gaussian and that of φ, so
    that K may be many orders of magnitude above or below the scale of φ. No second derivative is
    taken anywhere: integration by parts moves it onto the Gaussian, which accounts for the delta
    function in φ'' at a kink.
    """

    def __init__(self, function: ScalarFunction) -> None:
        self.function = function
        self.name = function.name
        self._sample = lru_cache(maxsize=64)(self._draw)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"

    def mean(self, kernel: ArrayLike) -> Array:
        """``E[φ(u)]``."""
        return self._checked(self._mean, kernel)

    def second_moment(self, kernel: ArrayLike) -> Array:
        """``E[φ(u)²]``; for GELU the paper's G."""
        return self._checked(self._second_moment, kernel)

    def slope_moment(self, kernel: ArrayLike) -> Array:
        """``E[φ'(u)²]``; for GELU the paper's H_e."""
        return self._checked(self._slope_moment, kernel)

    def product(self, k1: ArrayLike, k2: ArrayLike, k12: ArrayLike) -> Array:
        """``E[φ(u)φ(v)]`` for ``u, v`` of variances ``k1, k2`` and covariance ``k12``."""
        return self._checked_pair(self._product, k1, k2, k12)

    def slope_product(self, k1: ArrayLike, k2: ArrayLike, k12: ArrayLike) -> Array:
        """``E[φ'(u)φ'(v)] = ∂E[φ(u)φ(v)]/∂k12``."""
        return self._checked_pair(self._slope_product, k1, k2, k12)

    def chi_j(self, kernel: ArrayLike, sigma_w: ArrayLike = 1.0) -> Array:
        """``χ_J = σ_w² E[φ'²]``: J of an MLP's block."""
        scale = non_negative("sigma_w", sigma_w) ** 2
        return np.asarray(scale * self.slope_moment(kernel))[()]

    def chi_k(self, kernel: ArrayLike, sigma_w: ArrayLike = 1.0) -> Array:
        """``χ_K = σ_w² E[φ'² + φφ''] = ∂K^{l+1}/∂K^l``, by parts ``σ_w² E[u φφ']/K``."""
        scale = non_negative("sigma_w", sigma_w) ** 2
        return np.asarray(scale * self._checked(self._moment_slope, kernel))[()]

    def chi_delta(self, kernel: ArrayLike, sigma_w: ArrayLike = 1.0) -> Array:
        """``χ_Δ = σ_w² E[φ''² + φ'φ'''] = ∂J/∂K``, by parts ``σ_w² E[φ'²(u²/K − 1)]/2K``."""
        scale = non_negative("sigma_w", sigma_w) ** 2
        return np.asarray(scale * self._checked(self._slope_moment_slope, kernel))[()]

    @staticmethod
    def _checked(expectation: Callable[[Array], Array], kernel: ArrayLike) -> Array:
        return np.asarray(expectation(variance("K", kernel)))[()]

    @staticmethod
    def _checked_pair(
        expectation: Callable[[Array, Array, Array], Array],
        k1: ArrayLike,
        k2: ArrayLike,
        k12: ArrayLike,
    ) -> Array:
        first, second = variance("k1", k1), variance("k2", k2)
        both = np.asarray(k12, dtype=np.float64)
        bound = np.sqrt(first) * np.sqrt(second)
        if not (np.abs(both) <= bound * (1 + 1e-9)).all():
            raise TheoryError(
                f"k12={k12!r} is no covariance of variances {k1!r} and {k2!r}: its square "
                "exceeds their product."
            )
        first, second, both = np.broadcast_arrays(first, second, np.clip(both, -bound, bound))
        return np.asarray(expectation(first, second, both))[()]

    # What follows is overridden by closed forms.

    def _mean(self, kernel: Array) -> Array:
        return _each(lambda k: self._sample(k).mean(lambda s: s.phi * s.root), kernel)

    def _second_moment(self, kernel: Array) -> Array:
        return _each(lambda k: self._sample(k).mean(lambda s: s.phi**2), kernel)

    def _slope_moment(self, kernel: Array) -> Array:
        kernel = np.maximum(kernel, _LIMIT)
        return _each(lambda k: self._sample(k).mean(lambda s: s.slope() ** 2), kernel)

    def _moment_slope(self, kernel: Array) -> Array:
        kernel = np.maximum(kernel, _LIMIT)
        return _each(
            lambda k: self._sample(k).mean(lambda s: s.z * s.phi * s.slope()) / k**0.5, kernel
        )

    def _slope_moment_slope(self, kernel: Array) -> Array:
        kernel = np.maximum(kernel, _SLOPE_LIMIT)
        return _each(
            lambda k: self._sample(k).mean(lambda s: (s.z**2 - 1) * s.slope() ** 2) / (2 * k),
            kernel,
        )

    def _product(self, k1: Array, k2: Array, k12: Array) -> Array:
        alike = (k1 == k12) & (k2 == k12)
        if alike.all():
            return self._second_moment(k12)
        return _each(lambda *k: self._pair(self.function, *k), k1, k2, k12)

    def _slope_product(self, k1: Array, k2: Array, k12: Array) -> Array:
        k1, k2 = np.maximum(k1, _LIMIT), np.maximum(k2, _LIMIT)
        return _each(lambda *k: self._pair(self.function.derivative, *k), k1, k2, k12)

    def _draw(self, kernel: float) -> _Sample:
        """φ at the nodes, each times the root of its probability, lest a square overflow."""
        scale = kernel**0.5
        law = self._law(scale)
        breaks = self.function.breaks(law.reach * scale)
        z, weight = rule(law, breaks / max(scale, 1e-300))
        root = np.sqrt(weight)
        return _Sample(z, root, self.function(scale * z) * root, scale, self.function.derivative)

    def _law(self, scale: float) -> Gaussian:
        """As far out as φ² times the density matters."""
        law = Gaussian()
        ends = self.function(scale * np.array([-law.reach, law.reach, -1.0, 0.3, 1.0]))
        tail = np.abs(ends[:2]).max() * np.exp(-(law.reach**2) / 4)
        return law if tail**2 <= _NEGLIGIBLE * (ends[2:] ** 2).max() else Gaussian(38.0)

    def _pair(self, f: Function, k1: float, k2: float, k12: float) -> float:
        """``E[f(u) E[f(v) | u]]``; the inner mean is f smoothed, and rough where f is."""
        if k2 > k1:
            k1, k2 = k2, k1
        if k1 == 0:
            return float(f(np.zeros(1))[0]) ** 2
        scale, lean = k1**0.5, k12 / k1
        spread = float(determinant(*np.array([k1, k2, k12])) / k1) ** 0.5
        law = self._law(scale)
        reach = law.reach * scale
        breaks, kinks = self.function.breaks(reach), self.function.kinks(reach)
        cuts = [breaks / scale]
        if abs(lean) * scale > _FLAT:
            rough = (kinks[:, None] + spread * _SMOOTHING).ravel()
            cuts += [breaks / (lean * scale), rough / (lean * scale)]
        z, weight = rule(law, np.concatenate(cuts))
        z, weight = z[weight > 0], weight[weight > 0]
        inner = smoothed(f, breaks, lean * scale * z, np.full_like(z, spread), law)
        return float(np.sum(weight * f(scale * z) * inner))


class _Sample(NamedTuple):
    """φ at the nodes of one K; ``phi`` is multiplied by the root of the probabilities."""

    z: Array
    root: Array
    phi: Array
    scale: float
    derivative: Function

    def slope(self) -> Array:
        """``φ'`` times the root of the probabilities."""
        return self.derivative(self.scale * self.z) * self.root

    def mean(self, integrand: Callable[[_Sample], Array]) -> float:
        return float(integrand(self).sum())


def _each(f: Callable[..., float], *arguments: Array) -> Array:
    """``f`` of each element."""
    found = [f(*map(float, each)) for each in zip(*map(np.ravel, arguments), strict=True)]
    return np.reshape(np.array(found, dtype=np.float64), arguments[0].shape)
