"""Fixed points of an MLP, their phase, the critical line, and how deep information reaches."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from critinit.theory._checks import Array, non_negative, variance
from critinit.theory._names import ActivationLike
from critinit.theory._names import activation as to_activation
from critinit.theory._roots import all_roots, root
from critinit.theory.activations import Activation
from critinit.theory.errors import ActivationError

Phase = Literal["ordered", "critical", "chaotic"]
_STEP = 1.3
_SMALL, _LARGE = 1e-9, 1e8  # beyond them K is taken as on its way to 0 or infinity
_GRID = np.geomspace(1e-6, 1e6, 121)
_CRITICAL = 1e-6
_FOREVER = 1e-8


@dataclass(frozen=True)
class FixedPoint:
    """A K* with ``K* = σ_w² E[φ²] + σ_b²``: 0 and infinity count, as limits.

    Attributes:
        kernel: K*.
        chi_j: J there.
        chi_k: ``∂K^{l+1}/∂K^l`` there.
    """

    kernel: float
    chi_j: float
    chi_k: float

    @property
    def stable(self) -> bool:
        """Whether K comes back after a small change."""
        return self.chi_k < 1

    @property
    def phase(self) -> Phase:
        """Gradients vanish in the ordered phase, explode in the chaotic one."""
        if abs(self.chi_j - 1) <= _CRITICAL:
            return "critical"
        return "ordered" if self.chi_j < 1 else "chaotic"

    @property
    def kernel_depth(self) -> float:
        """``ξ_K = −1/log χ_K``: the layers in which ``K − K*`` falls by a factor e."""
        return _depth(self.chi_k)


def fixed_point(
    activation: ActivationLike, sigma_w: float, sigma_b: float = 0.0, kernel: float = 1.0
) -> FixedPoint:
    """The fixed point that K moves to when it starts at ``kernel``.

    >>> point = fixed_point("tanh", sigma_w=1.5, sigma_b=0.1)
    >>> round(point.kernel, 4), point.phase, point.stable
    (0.8133, 'chaotic', True)
    >>> fixed_point("tanh", sigma_w=1.0).kernel, fixed_point("relu", sigma_w=2.0).kernel
    (0.0, inf)
    """
    phi, layer = to_activation(activation), _Layer(sigma_w, sigma_b)
    k = max(float(variance("kernel", kernel)), 2 * _SMALL)
    excess = layer.excess(phi, k)
    if abs(excess) <= 1e-12:
        return layer.point(phi, k)
    at_zero = layer.next(phi, 0.0)
    lowest = min(_SMALL, at_zero / 2) if at_zero > 0 else _SMALL
    step = _STEP if excess > 0 else 1 / _STEP
    while lowest < k < _LARGE:
        last, k = k, k * step
        if layer.excess(phi, k) * excess <= 0:
            ends = sorted([math.log(last), math.log(k)])
            log = root(lambda t: layer.excess(phi, math.exp(t)), *ends)
            return layer.point(phi, math.exp(log))
    return layer.point(phi, math.inf if excess > 0 else 0.0)


def fixed_points(
    activation: ActivationLike, sigma_w: float, sigma_b: float = 0.0
) -> list[FixedPoint]:
    """All isolated finite fixed points, by growing K*, stable or not.

    >>> [round(point.kernel, 3) for point in fixed_points("gelu", sigma_w=1.5, sigma_b=0.1)]
    [0.024, 1.315]
    """
    phi, layer = to_activation(activation), _Layer(sigma_w, sigma_b)
    zero = [0.0] if layer.next(phi, 0.0) == 0 else []
    grid = _grid(phi)
    values = [layer.excess(phi, float(k)) for k in grid]
    if np.ptp(values) <= 1e-12:  # homogeneous: no fixed point but 0, or all
        return [layer.point(phi, k) for k in zero]
    return [layer.point(phi, k) for k in [*zero, *all_roots(lambda k: layer.excess(phi, k), grid)]]


def phase(
    activation: ActivationLike, sigma_w: float, sigma_b: float = 0.0, kernel: float = 1.0
) -> Phase:
    """The phase of the fixed point that ``kernel`` leads to.

    >>> [phase("relu", sigma_w) for sigma_w in (1.0, 2**0.5, 2.0)]
    ['ordered', 'critical', 'chaotic']
    """
    return fixed_point(activation, sigma_w, sigma_b, kernel).phase


@dataclass(frozen=True)
class CriticalPoint:
    """σ_w and σ_b at which ``χ_J = 1`` at a fixed point K*.

    K* is NaN where every K is a fixed point, and infinite where J = 1 while K grows forever.
    """

    sigma_w: float
    sigma_b: float
    kernel: float
    chi_k: float


def critical_points(activation: ActivationLike, sigma_b: float = 0.0) -> list[CriticalPoint]:
    """All critical points at this σ_b, by growing K*.

    ``χ_J = 1`` and ``K* = σ_w² E[φ²] + σ_b²`` leave ``K* − E[φ²]/E[φ'²] = σ_b²`` for K*.

    >>> [(round(p.sigma_w, 4), round(p.kernel, 4)) for p in critical_points("tanh", 0.1)]
    [(1.1934, 0.2733)]
    """
    phi, b = to_activation(activation), float(non_negative("sigma_b", sigma_b))
    grid = _grid(phi)
    if float(phi.slope_moment(1.0)) == 0:
        return []
    ratio = [_moment_ratio(phi, float(k)) / k for k in grid]
    if np.ptp(ratio) <= 1e-10 and abs(ratio[0] - 1) <= 1e-10:
        sigma_w = float(phi.slope_moment(1.0)) ** -0.5
        return [CriticalPoint(sigma_w, b, math.inf if b else math.nan, 1.0)]
    kernels = all_roots(lambda k: k - _moment_ratio(phi, k) - b**2, grid)
    if b == 0 and float(phi.second_moment(0.0)) == 0:
        kernels = [0.0, *(k for k in kernels if k > 1e-3 or _isolated(phi, k))]
    return [_critical(phi, b, k) for k in kernels]


def critical_line(activation: ActivationLike, sigma_b: ArrayLike) -> Array:
    """The critical σ_w at each σ_b: that of the smallest K*; NaN where there is none.

    >>> critical_line("relu", [0.0, 0.5]).round(4).tolist()
    [1.4142, 1.4142]
    """
    phi, line = to_activation(activation), np.atleast_1d(non_negative("sigma_b", sigma_b))
    found = [critical_points(phi, float(b)) for b in line]
    return np.array([points[0].sigma_w if points else math.nan for points in found])


@dataclass(frozen=True)
class CorrelationPoint:
    """Where the cosine c of two inputs ends up in a deep network.

    Attributes:
        correlation: The stable c*.
        slope: χ_c, the derivative of the map of c at c*.
    """

    correlation: float
    slope: float

    @property
    def depth(self) -> float:
        """``ξ_c = −1/log χ_c``: the layers in which ``c − c*`` falls by a factor e."""
        return _depth(self.slope)


def correlation_point(
    activation: ActivationLike, sigma_w: float, sigma_b: float = 0.0, kernel: float = 1.0
) -> CorrelationPoint:
    """The fixed point of ``c → (σ_w² E[φ(u)φ(v)] + σ_b²)/K*``, and ``χ_c = σ_w² E[φ'(u)φ'(v)]``.

    In the ordered phase ``c* = 1`` and ``χ_c = χ_J``; in the chaotic phase ``c* < 1``.
    """
    phi, layer = to_activation(activation), _Layer(sigma_w, sigma_b)
    k = min(max(fixed_point(phi, sigma_w, sigma_b, kernel).kernel, 1e-6), _LARGE)
    scale = layer.next(phi, k)

    def excess(c: float) -> float:
        return (layer.w * float(phi.product(k, k, c * k)) + layer.b) / scale - c

    def slope(c: float) -> float:
        return layer.w * float(phi.slope_product(k, k, c * k)) * k / scale

    gap = 0.1
    while slope(1.0) > 1 + _CRITICAL and gap > 1e-13:
        if excess(1 - gap) < 0:
            c = root(excess, 0.0, 1 - gap)
            return CorrelationPoint(c, slope(c))
        gap /= 10
    return CorrelationPoint(1.0, slope(1.0))


def correlation_depth(
    activation: ActivationLike, sigma_w: float, sigma_b: float = 0.0, kernel: float = 1.0
) -> float:
    """ξ_c: how many layers two inputs stay telling apart; infinite at criticality.

    >>> depths = [correlation_depth("erf", sigma_w, 0.1) for sigma_w in (0.8, 1.0, 1.3)]
    >>> [round(depth, 1) for depth in depths]
    [3.6, 31.4, 14.3]
    """
    return correlation_point(activation, sigma_w, sigma_b, kernel).depth


class _Layer:
    """One hidden layer's map of K."""

    def __init__(self, sigma_w: float, sigma_b: float) -> None:
        self.sigma_w = float(non_negative("sigma_w", sigma_w))
        self.w = self.sigma_w**2
        self.b = float(non_negative("sigma_b", sigma_b)) ** 2

    def next(self, phi: Activation, k: float) -> float:
        return self.w * float(phi.second_moment(k)) + self.b

    def excess(self, phi: Activation, k: float) -> float:
        """``K^{l+1}/K^l − 1``."""
        return self.next(phi, k) / k - 1

    def point(self, phi: Activation, k: float) -> FixedPoint:
        at = min(k, _LARGE)
        chi_j = float(phi.chi_j(at, self.sigma_w))
        return FixedPoint(k, chi_j, float(phi.chi_k(at, self.sigma_w)))


def _grid(phi: Activation) -> Array:
    """The K to look at: those for which φ does not overflow."""
    for last in range(len(_GRID), 1, -10):
        try:
            phi.second_moment(float(_GRID[last - 1]))
        except ActivationError:
            continue
        return _GRID[:last]
    return _GRID[:1]


def _moment_ratio(phi: Activation, k: float) -> float:
    return float(phi.second_moment(k) / phi.slope_moment(k))


def _isolated(phi: Activation, k: float) -> bool:
    """Whether the root at k is one, and not the rounding error of the root at 0."""
    return abs(2 * k - _moment_ratio(phi, 2 * k)) > 1e-9 * k


def _critical(phi: Activation, b: float, k: float) -> CriticalPoint:
    sigma_w = float(phi.slope_moment(k)) ** -0.5
    return CriticalPoint(sigma_w, b, k, float(phi.chi_k(k, sigma_w)))


def _depth(slope: float) -> float:
    if abs(slope) >= 1 - _FOREVER:
        return math.inf
    return -1 / math.log(abs(slope)) if slope else 0.0
