"""Layer maps: what a layer does to K and to gradients at infinite width.

A network's recursion is the composition of its layers' maps. Each takes a `Signal` and returns the
one behind the layer, with the layer's own J. J multiplies along a chain, and adds up where
branches meet, because every branch ends in weights of zero mean that nothing else shares.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from critinit.theory._checks import LARGEST, non_negative, number, numbers, variance
from critinit.theory.activations import Activation
from critinit.theory.errors import DivergenceError, TheoryError
from critinit.theory.prediction import Prediction


@dataclass(frozen=True)
class Signal:
    """A tensor at infinite width, of examples that are all alike.

    Attributes:
        kernel: ``K(x, x)``, the mean square of an entry.
        cross: ``K(x, x')``, the mean product of an entry at two different examples.
        mean: The mean of the entries of one example: 0 but behind an activation.
    """

    kernel: float
    cross: float
    mean: float = 0.0

    @property
    def correlation(self) -> float:
        """``K(x, x') / K(x, x)``."""
        return self.cross / self.kernel if self.kernel else float("nan")


class Layer(Protocol):
    """A layer map."""

    def __call__(self, signal: Signal) -> tuple[Signal, float]:
        """The signal behind the layer, and the layer's J."""
        ...


@dataclass(frozen=True)
class Linear:
    """``W ~ N(0, σ_w²/fan_in)``, ``b ~ N(0, σ_b²)``: ``K → σ_w² K + σ_b²``, ``J = σ_w²``.

    J holds for any widths: fan-in normalizes the sum over inputs, the definition of J that over
    outputs. A layer across patches instead of channels has the same map.

    >>> Linear(sigma_w=2.0, sigma_b=1.0)(Signal(kernel=3.0, cross=0.5))
    (Signal(kernel=13.0, cross=3.0, mean=0.0), 4.0)
    """

    sigma_w: float
    sigma_b: float = 0.0

    def __post_init__(self) -> None:
        non_negative("sigma_w", self.sigma_w)
        non_negative("sigma_b", self.sigma_b)

    def __call__(self, signal: Signal) -> tuple[Signal, float]:
        """Scale and shift."""
        w, b = self.sigma_w**2, self.sigma_b**2
        return Signal(w * signal.kernel + b, w * signal.cross + b), w


@dataclass(frozen=True)
class BetweenPatches(Linear):
    """A linear layer across patches, where ``x`` and ``x'`` are two patches of one example.

    Each has its own row of W and its own bias, so that the two are independent behind it.
    """

    def __call__(self, signal: Signal) -> tuple[Signal, float]:
        """Without what the two had in common."""
        behind, j = super().__call__(signal)
        return replace(behind, cross=0.0), j


@dataclass(frozen=True)
class AverageOfPatches:
    """The mean over ``patches``, two of which have ``K = between``: each output sees one of all.

    ``K → (K + (P − 1) between)/P``, ``J = 1/P``.
    """

    patches: int
    between: float

    def __call__(self, signal: Signal) -> tuple[Signal, float]:
        """Average."""
        own = 1 / self.patches
        shared = (1 - own) * self.between
        kernel, cross = own * signal.kernel + shared, own * signal.cross + shared
        return Signal(kernel, cross, signal.mean), own


@dataclass(frozen=True)
class Scale:
    """``g h``, such as by a norm's γ: ``K → g² K``, ``J = g²``."""

    factor: float

    def __call__(self, signal: Signal) -> tuple[Signal, float]:
        """Multiply."""
        g = self.factor
        return Signal(g**2 * signal.kernel, g**2 * signal.cross, g * signal.mean), g**2


@dataclass(frozen=True)
class Pointwise:
    """``φ`` on a Gaussian signal: ``K → E[φφ]``, ``J = E[φ'φ']``."""

    activation: Activation

    def __call__(self, signal: Signal) -> tuple[Signal, float]:
        """Gaussian expectations."""
        k, phi = signal.kernel, self.activation
        behind = Signal(
            float(phi.second_moment(k)),
            float(phi.product(k, k, np.clip(signal.cross, -k, k))),
            float(phi.mean(k)),
        )
        return behind, float(phi.slope_moment(k))


@dataclass(frozen=True)
class LayerNorm:
    """Each example to mean 0 and variance 1 over its features: ``J = 1/(K − mean²)``.

    The two directions it projects out are two of infinitely many. ``centered=False`` is RMSNorm.
    """

    centered: bool = True

    def __call__(self, signal: Signal) -> tuple[Signal, float]:
        """Divide by the variance."""
        shift = signal.mean**2 if self.centered else 0.0
        spread = signal.kernel - shift
        if spread <= 0:
            raise TheoryError(
                f"a norm meets a signal of variance {spread:.3g}: all its features are equal. "
                "Give K > 0, or a bias or weights before the norm."
            )
        mean = 0.0 if self.centered else signal.mean / spread**0.5
        return Signal(1.0, (signal.cross - shift) / spread, mean), 1 / spread


@dataclass(frozen=True)
class Residual:
    """``scale · branch(h) + skip · h``; ``scale`` is LayerScale's E, ``skip`` is μ.

    K and J of both paths add: the branch must end in a `Linear`, whose weights have mean zero.
    """

    branch: tuple[Layer, ...]
    scale: float = 1.0
    skip: float = 1.0

    def __post_init__(self) -> None:
        numbers("scale", self.scale)
        numbers("skip", self.skip)
        if not self.branch or not isinstance(self.branch[-1], Linear):
            raise TheoryError("a residual branch must end in a Linear layer, to be independent.")

    def __call__(self, signal: Signal) -> tuple[Signal, float]:
        """Add both paths."""
        out, j = Chain(self.branch)(signal)
        e, mu = self.scale**2, self.skip**2
        behind = Signal(
            e * out.kernel + mu * signal.kernel,
            e * out.cross + mu * signal.cross,
            self.skip * signal.mean,
        )
        return behind, e * j + mu


@dataclass(frozen=True)
class Chain:
    """One layer after the other: J is the product."""

    layers: tuple[Layer, ...] = field(default=())

    def __call__(self, signal: Signal) -> tuple[Signal, float]:
        """Compose."""
        total = 1.0
        for layer in self.layers:
            signal, j = layer(signal)
            total *= j
        return signal, total


def propagate(
    blocks: Iterable[Layer], kernel: ArrayLike = 1.0, correlation: ArrayLike = 0.0
) -> Prediction:
    """J and K of every block, from ``K^0(x, x)`` and the correlation of two inputs.

    >>> from critinit.theory import activation
    >>> block = Chain((Pointwise(activation("relu")), Linear(2**0.5)))
    >>> propagate([block] * 3).apjn.round(12).tolist()
    [1.0, 1.0, 1.0]
    """
    k, c = float(variance("kernel", number("kernel", kernel))), number("correlation", correlation)
    if abs(c) > 1:
        raise TheoryError(f"correlation={c:g}: a cosine lies between −1 and 1.")
    signal = Signal(k, c * k)
    signals: list[Signal] = [signal]
    apjn: list[float] = []
    for block in blocks:
        signal, j = block(signal)
        if not signal.kernel < LARGEST:
            raise DivergenceError(
                f"K overflows in block {len(apjn)}. Take fewer layers or a smaller σ_w."
            )
        signals.append(signal)
        apjn.append(j)
    return Prediction(
        np.array(apjn),
        np.array([s.kernel for s in signals]),
        np.array([s.correlation for s in signals]),
    )
