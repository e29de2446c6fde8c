"""Activations whose Gaussian expectations are known in closed form."""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F

from critinit.theory._checks import Array, determinant, numbers
from critinit.theory._function import ScalarFunction
from critinit.theory.activations import Activation


class LeakyReLU(Activation):
    """``φ(u) = max(u, 0) + s min(u, 0)``: ReLU for s = 0, linear for s = 1.

    Homogeneous of degree one, so that ``E[φ'²] = (1 + s²)/2`` for every K, and ``χ_Δ = 0``. The
    correlated pair adds the arc-cosine kernel: ``s k12 + (1 − s)² √(k1 k2) κ(θ)``.
    """

    def __init__(self, slope: float = 0.01) -> None:
        self.slope = float(numbers("slope", slope))
        name = {0.0: "relu", 1.0: "linear"}.get(self.slope, f"leaky_relu({self.slope:g})")
        super().__init__(ScalarFunction(lambda u: F.leaky_relu(u, self.slope), name))

    @property
    def gain(self) -> float:
        """``E[φ'²]``, so that ``J = gain (a_W σ_w)²``."""
        return (1 + self.slope**2) / 2

    def _mean(self, kernel: Array) -> Array:
        return (1 - self.slope) * np.sqrt(kernel / (2 * math.pi))

    def _second_moment(self, kernel: Array) -> Array:
        return self.gain * kernel

    def _slope_moment(self, kernel: Array) -> Array:
        return np.full_like(kernel, self.gain)

    def _moment_slope(self, kernel: Array) -> Array:
        return np.full_like(kernel, self.gain)

    def _slope_moment_slope(self, kernel: Array) -> Array:
        return np.zeros_like(kernel)

    def _product(self, k1: Array, k2: Array, k12: Array) -> Array:
        angle, sine = _angle(k1, k2, k12)
        relu = (sine + (math.pi - angle) * k12) / (2 * math.pi)
        return self.slope * k12 + (1 - self.slope) ** 2 * relu

    def _slope_product(self, k1: Array, k2: Array, k12: Array) -> Array:
        angle, _ = _angle(k1, k2, k12)
        return self.slope + (1 - self.slope) ** 2 * (math.pi - angle) / (2 * math.pi)


class Erf(Activation):
    """``φ(u) = erf(u)``, with ``E[φ(u)φ(v)] = (2/π) arcsin(2 k12/√((1 + 2k1)(1 + 2k2)))``."""

    def __init__(self) -> None:
        super().__init__(ScalarFunction(torch.erf, "erf"))

    def _mean(self, kernel: Array) -> Array:
        return np.zeros_like(kernel)

    def _second_moment(self, kernel: Array) -> Array:
        return 2 / math.pi * np.arctan2(2 * kernel, np.sqrt(1 + 4 * kernel))

    def _slope_moment(self, kernel: Array) -> Array:
        return 4 / math.pi / np.sqrt(1 + 4 * kernel)

    def _moment_slope(self, kernel: Array) -> Array:
        return 4 / math.pi / ((1 + 2 * kernel) * np.sqrt(1 + 4 * kernel))

    def _slope_moment_slope(self, kernel: Array) -> Array:
        return -8 / math.pi / (1 + 4 * kernel) ** 1.5

    def _product(self, k1: Array, k2: Array, k12: Array) -> Array:
        return 2 / math.pi * np.arctan2(2 * k12, np.sqrt(self._left(k1, k2, k12)))

    def _slope_product(self, k1: Array, k2: Array, k12: Array) -> Array:
        return 4 / math.pi / np.sqrt(self._left(k1, k2, k12))

    @staticmethod
    def _left(k1: Array, k2: Array, k12: Array) -> Array:
        """``(1 + 2k1)(1 + 2k2) − 4 k12²``, without cancellation."""
        left: Array = 1 + 2 * (k1 + k2) + 4 * determinant(k1, k2, k12)
        return left


class GELU(Activation):
    """``φ(u) = u Φ(u)``: G and H_e of the ResMLP appendix, their derivatives, and pairs.

    With ``A = 1 + k1``, ``B = 1 + k2``, ``Δ = AB − k12²``, ``p = 1/(2π√Δ)``:
    ``E[φ(u)φ(v)] = k12/4 + k12 arcsin(k12/√AB)/2π + p (k1 k2 + k12² (1/A + 1/B − 1))``.
    """

    def __init__(self) -> None:
        super().__init__(ScalarFunction(F.gelu, "gelu"))

    def _mean(self, kernel: Array) -> Array:
        return kernel / np.sqrt(2 * math.pi * (1 + kernel))

    def _second_moment(self, kernel: Array) -> Array:
        root = np.sqrt(1 + 2 * kernel)
        algebraic = kernel**2 / ((1 + kernel) * root) / math.pi
        return kernel / 4 + kernel * np.arctan2(kernel, root) / (2 * math.pi) + algebraic

    def _slope_moment(self, kernel: Array) -> Array:
        root = np.sqrt(1 + 2 * kernel)
        algebraic: Array = kernel * (3 + 5 * kernel) / ((1 + kernel) * root**3)
        return 0.25 + (np.arctan2(kernel, root) + algebraic) / (2 * math.pi)

    def _moment_slope(self, kernel: Array) -> Array:
        root = np.sqrt(1 + 2 * kernel)
        algebraic: Array = (
            kernel * (4 * kernel**2 + 11 * kernel + 5) / ((1 + kernel) ** 2 * root**3)
        )
        return 0.25 + (np.arctan2(kernel, root) + algebraic) / (2 * math.pi)

    def _slope_moment_slope(self, kernel: Array) -> Array:
        cubic = 4 + kernel * (12 + kernel * (9 - kernel))
        return cubic / (1 + kernel) ** 2 / (1 + 2 * kernel) ** 2.5 / (2 * math.pi)

    def _product(self, k1: Array, k2: Array, k12: Array) -> Array:
        left, inner = self._left(k1, k2, k12), self._inner(k1, k2, k12)
        arc = 0.25 + np.arctan2(k12, np.sqrt(left)) / (2 * math.pi)
        return k12 * arc + inner / (2 * math.pi * np.sqrt(left))

    def _slope_product(self, k1: Array, k2: Array, k12: Array) -> Array:
        left, inner = self._left(k1, k2, k12), self._inner(k1, k2, k12)
        arc = 0.25 + np.arctan2(k12, np.sqrt(left)) / (2 * math.pi)
        algebraic = inner / left + 2 * self._shares(k1, k2) - 1
        return arc + k12 * algebraic / (2 * math.pi * np.sqrt(left))

    @staticmethod
    def _left(k1: Array, k2: Array, k12: Array) -> Array:
        """Δ, without cancellation."""
        left: Array = 1 + k1 + k2 + determinant(k1, k2, k12)
        return left

    @staticmethod
    def _shares(k1: Array, k2: Array) -> Array:
        shares: Array = 1 / (1 + k1) + 1 / (1 + k2)
        return shares

    def _inner(self, k1: Array, k2: Array, k12: Array) -> Array:
        return determinant(k1, k2, k12) + k12**2 * self._shares(k1, k2)


def _angle(k1: Array, k2: Array, k12: Array) -> tuple[Array, Array]:
    """The angle θ between u and v, and ``√(k1 k2) sin θ``."""
    sine = np.sqrt(determinant(k1, k2, k12))
    return np.arctan2(sine, k12), sine
