"""The pre-BN residual MLP (eq. bnmlp_preact) for finite and infinite batches."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from critinit.theory._checks import Array, count, numbers
from critinit.theory._laws import Sphere, rule, smoothed
from critinit.theory._names import ActivationLike
from critinit.theory._names import activation as to_activation
from critinit.theory.activations import Activation
from critinit.theory.errors import TheoryError
from critinit.theory.layers import Layer, Linear, Residual, Signal, propagate
from critinit.theory.prediction import Prediction

_FEWEST = 4
_NEAR = 8.0 ** -np.arange(1.0, 12.0)
_TOWARDS = np.concatenate([-_NEAR, np.zeros(1), _NEAR])


@dataclass(frozen=True)
class NormalizedActivation:
    """``φ(BN(h))`` over a batch of ``batch_size`` examples, or infinitely many (None).

    At infinite width the examples of a batch are exchangeable Gaussians at every neuron. BatchNorm
    makes of them a uniform point on the sphere of radius √|B| in the |B| − 1 dimensions without
    the mean, whatever K: a coordinate is ``N(0, 1)`` for |B| → ∞ (conj. tilde_h). Its length is
    independent of its direction, and ``E[|B|/‖Ph‖²] = |B|/((|B| − 3)(K_xx − K_xx'))``, which
    for |B| → ∞ is conj. proj. So eq. bn_apjn is

    ``J = E[φ'(h̃)² (|B| − 1 − h̃²)] / ((|B| − 3)(K_xx − K_xx'))``, and conj. bn for |B| → ∞.
    """

    activation: Activation
    batch_size: int | None = None

    def __post_init__(self) -> None:
        if self.batch_size is not None:
            count("batch_size", self.batch_size, _FEWEST)

    def __call__(self, signal: Signal) -> tuple[Signal, float]:
        """What is behind does not depend on K; J does."""
        gap = signal.kernel - signal.cross
        if gap <= 0:
            raise TheoryError(
                f"BatchNorm meets examples with K(x,x) − K(x,x') = {gap:.3g}: they are all the "
                "same. Give a correlation below 1."
            )
        kernel, cross, mean, slope = self.moments
        return Signal(kernel, cross, mean), slope / gap

    @cached_property
    def moments(self) -> tuple[float, float, float, float]:
        """``E[φ(x)²]``, ``E[φ(x)φ(x')]``, ``E[φ]``, and J times ``K_xx − K_xx'``."""
        if self.batch_size is None:
            phi = self.activation
            mean = float(phi.mean(1.0))
            return float(phi.second_moment(1.0)), mean**2, mean, float(phi.slope_moment(1.0))
        return _moments_on_sphere(self.activation, self.batch_size)


def _moments_on_sphere(activation: Activation, batch: int) -> tuple[float, float, float, float]:
    phi, n = activation.function, batch - 1
    lean = -1 / n  # the correlation of two examples
    breaks = phi.breaks(n**0.5)
    y, weight = rule(Sphere(n), np.concatenate([breaks, _rims(phi.kinks(n**0.5), lean, n)]))
    values, slopes = phi(y), phi.derivative(y)
    spread = np.sqrt((1 - lean**2) * np.maximum(n - y**2, 0.0) / (n - 1))
    other = smoothed(phi, breaks, lean * y, spread, Sphere(n - 1))
    slope = np.sum(weight * slopes**2 * (n - y**2)) / (n - 2)
    return (
        float(np.sum(weight * values**2)),
        float(np.sum(weight * values * other)),
        float(np.sum(weight * values)),
        float(slope),
    )


def _rims(kinks: Array, lean: float, n: int) -> Array:
    """Where a kink of φ enters the range of the other coordinate, as the root of the distance."""
    inside = kinks[np.abs(kinks) <= n**0.5]
    angle = np.arccos(inside / n**0.5)
    rims = n**0.5 * np.cos(np.stack([angle - np.arccos(lean), angle + np.arccos(lean)]))
    return np.asarray(rims[..., None] + n**0.5 * _TOWARDS).ravel()


def bn_mlp(
    depth: int,
    activation: ActivationLike = "relu",
    *,
    sigma_w: float,
    sigma_b: float = 0.0,
    mu: float = 0.0,
    batch_size: int | None = None,
    kernel: float = 1.0,
    correlation: float = 0.0,
) -> Prediction:
    """``h^{l+1} = W φ(BN(h^l)) + b + μ h^l``, behind a linear input layer (eq. bnmlp_preact).

    ``K^{l+1}_{xx'} = σ_w² E[φ(h̃_x) φ(h̃_x')] + σ_b² + μ² K^l_{xx'}`` and
    ``J^{l,l+1} = σ_w² E[φ'²]/(K_xx − K_xx') + μ²`` (conj. bn). With a ``batch_size`` the same for a
    batch of finite size, exactly at infinite width; see `NormalizedActivation`.

    Args:
        depth: Normalized blocks.
        activation: φ; see `activation`.
        sigma_w: Weights have variance ``σ_w²/fan_in``.
        sigma_b: Biases have variance ``σ_b²``; J does not depend on it.
        mu: Strength μ of the skip connections.
        batch_size: |B|, 4 or more; None is infinite.
        kernel: ``K^0(x, x)`` of the inputs.
        correlation: The cosine between two inputs, below 1.

    >>> import math
    >>> profile = bn_mlp(3, "relu", sigma_w=1.3, sigma_b=0.2)
    >>> round(float(profile.apjn[-1]), 12) == round(math.pi / (math.pi - 1), 12)
    True
    """
    linear = Linear(sigma_w, sigma_b)
    branch = NormalizedActivation(to_activation(activation), batch_size), linear
    blocks: list[Layer] = [linear, *[Residual(branch, skip=mu)] * count("depth", depth)]
    return propagate(blocks, kernel, correlation)


def bn_limit(
    activation: ActivationLike = "relu", mu: float = 0.0, batch_size: int | None = None
) -> float:
    """J of an infinitely deep pre-BN residual MLP, for any σ_w and σ_b.

    ``(1 − μ²) E[φ'²]/(E[φ(x)²] − E[φ(x)φ(x')]) + μ²`` for |μ| < 1, since ``K_xx − K_xx'`` tends
    to a fixed point; μ² beyond, since it grows: as l for μ = 1, so that ``J = 1 + O(1/l)``.

    >>> round(bn_limit("relu"), 5), round(bn_limit("relu", batch_size=64), 5), bn_limit(mu=1)
    (1.46694, 1.47392, 1.0)
    """
    skip = float(numbers("mu", mu)) ** 2
    normalized = NormalizedActivation(to_activation(activation), batch_size)
    kernel, cross, _, slope = normalized.moments
    return skip + max(1 - skip, 0.0) * slope / (kernel - cross)


def batch_correction(
    batch_size: int, activation: ActivationLike = "relu", mu: float = 0.0
) -> float:
    """By how much J at this |B| exceeds that of an infinite batch, in a deep network.

    >>> [round(size * batch_correction(size), 2) for size in (64, 256, 1024)]  # O(1/|B|)
    [0.45, 0.4, 0.39]
    """
    return bn_limit(activation, mu, batch_size) - bn_limit(activation, mu)
