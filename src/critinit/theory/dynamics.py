"""Algorithm 1 on an infinitely wide MLP: J(t) over a whole grid of learning rates and σ_w."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from critinit.theory._checks import Array, count, non_negative, number, positive, variance
from critinit.theory._names import ActivationLike
from critinit.theory._names import activation as to_activation
from critinit.theory._table import Tabulated
from critinit.theory.activations import Activation
from critinit.theory.errors import TheoryError
from critinit.theory.gradients import Loss, check_loss, first_block

_FIGURE_BAND = 1.25


@dataclass(frozen=True, eq=False)
class Dynamics:
    """Where the tuning of every point of a grid went. Arrays end in the grid's shape.

    Attributes:
        apjn: ``J^{l,l+1}`` after the last step, ``(depth + 1, …)``.
        kernel: ``K^l`` after the last step, ``(depth + 2, …)``.
        a_w: The multipliers of the weights, ``(depth + 1, …)``.
        a_b: The multipliers of the biases.
        converged: Whether J of every block in the loss ended within ``1/band`` and ``band``.
        diverged: Whether some J became zero, infinite or NaN.
        history: J before each step and after the last, ``(steps + 1, depth + 1, …)``, if asked for.
    """

    apjn: Array
    kernel: Array
    a_w: Array
    a_b: Array
    converged: np.typing.NDArray[np.bool_]
    diverged: np.typing.NDArray[np.bool_]
    history: Array | None = None


def dynamics(
    loss: Loss = "jll",
    *,
    eta: ArrayLike,
    sigma_w: ArrayLike,
    sigma_b: ArrayLike = 0.0,
    activation: ActivationLike = "relu",
    depth: int = 10,
    steps: int = 980,
    lam: float = 0.05,
    kernel: float = 1.0,
    band: float = _FIGURE_BAND,
    history: bool = False,
) -> Dynamics:
    """Gradient descent on the multipliers of the recursion, from ``a = 1`` (fig. relu_jac).

    ``a(t+1) = a(t) − η ∇_a L(t)`` (eq. a_update), with depth-dependent terms and all. For ReLU and
    JLL or JSL this is eq. relu_jupdate and eq. j_update_jsl. ``eta``, ``sigma_w`` and ``sigma_b``
    are broadcast against each other: give a column and a row for a grid.

    Args:
        loss: "jll", "jsl" or "jkl"; see `loss_gradient`.
        eta: Learning rates η.
        sigma_w: Weights start with variance ``σ_w²/fan_in``.
        sigma_b: Biases start with variance ``σ_b²``.
        activation: φ. If it has no closed form, its moments are tabulated first (a second or so).
        depth: Hidden layers, L.
        steps: T.
        lam: λ of JKL.
        kernel: ``K^0``.
        band: J counts as converged within a factor of ``band`` of 1; the figure plots 0.8 … 1.25.
        history: Keep J(t) of every step.

    >>> import numpy as np
    >>> eta, sigma_w = np.array([[0.05], [0.5], [5.0]]), np.array([1.0, 2.0, 3.0])
    >>> dynamics(eta=eta, sigma_w=sigma_w).converged.astype(int).tolist()
    [[1, 1, 1], [1, 0, 0], [0, 0, 0]]
    """
    phi = to_activation(activation)
    if type(phi) is Activation:
        phi = Tabulated(phi)
    rate, w, b = _on_one_grid(
        non_negative("eta", eta),
        positive("sigma_w", sigma_w) ** 2,
        non_negative("sigma_b", sigma_b) ** 2,
    )
    layers = count("depth", depth) + 1
    start = np.full(w.shape, positive("kernel", variance("kernel", number("kernel", kernel))))
    descent = _Descent(phi, w, b, start, first_block(loss), loss == "jsl", check_loss(loss, lam))
    a_w, a_b = np.ones((2, layers, *w.shape))
    kept = []
    with np.errstate(all="ignore"):
        for _ in range(count("steps", steps)):
            by_w, by_b = descent.gradient(a_w, a_b)
            if history:
                kept.append(descent.apjn)
            a_w, a_b = a_w - rate * by_w, a_b - rate * by_b
        descent.forward(a_w, a_b)
        counted = descent.apjn[first_block(loss) :]
        diverged = np.asarray(~(np.isfinite(counted) & (counted > 0)).all(axis=0))
        converged = np.asarray((np.abs(np.log(counted)) <= np.log(band)).all(axis=0))
    past = np.stack([*kept, descent.apjn]) if history else None
    return Dynamics(descent.apjn, descent.kernel, a_w, a_b, converged, diverged, past)


def _on_one_grid(eta: Array, w: Array, b: Array) -> tuple[Array, ...]:
    try:
        return tuple(np.broadcast_arrays(eta, w, b))
    except ValueError:
        raise TheoryError(
            f"eta, sigma_w and sigma_b have the shapes {eta.shape}, {w.shape} and {b.shape}, which "
            "are not those of one grid. Give a column and a row: eta[:, None], sigma_w."
        ) from None


class _Descent:
    """The recursion for all points of the grid at once, forwards and backwards."""

    def __init__(
        self, phi: Activation, w: Array, b: Array, k0: Array, first: int, jsl: bool, lam: float
    ) -> None:
        self.phi, self.w, self.b, self.k0 = phi, w, b, k0
        self.first, self.jsl, self.lam = first, jsl, lam

    def forward(self, a_w: Array, a_b: Array) -> None:
        """J and K at these multipliers."""
        kernel, moments, slopes = [self.k0], [self.k0], [np.ones_like(self.k0)]
        for i, (weight, bias) in enumerate(zip(a_w, a_b, strict=True)):
            if i:
                moments.append(self.phi._second_moment(kernel[i]))
                slopes.append(self.phi._slope_moment(kernel[i]))
            kernel.append(weight**2 * self.w * moments[i] + bias**2 * self.b)
        self.kernel = np.stack(kernel)
        self.moments, self.slopes = np.stack(moments), np.stack(slopes)
        self.apjn = a_w**2 * self.w * self.slopes

    def gradient(self, a_w: Array, a_b: Array) -> tuple[Array, Array]:
        """The gradient by each multiplier, by one pass from the last layer to the first."""
        self.forward(a_w, a_b)
        by_j, by_k = self._by_j(), self._by_k()
        by_w, by_b = np.empty_like(a_w), np.empty_like(a_b)
        back = by_k[-1]
        for i in reversed(range(len(a_w))):
            by_w[i] = 2 * a_w[i] * self.w * (by_j[i] * self.slopes[i] + back * self.moments[i])
            by_b[i] = 2 * a_b[i] * self.b * back
            if i:
                by_moment = self.phi._moment_slope(self.kernel[i]) * back
                by_slope = self.phi._slope_moment_slope(self.kernel[i]) * by_j[i]
                back = by_k[i] + a_w[i] ** 2 * self.w * (by_moment + by_slope)
        return by_w, by_b

    def _by_j(self) -> Array:
        """The loss by J, as far as it depends on it directly."""
        direct = self.apjn - 1 if self.jsl else np.log(self.apjn) / self.apjn
        direct[: self.first] = 0
        return direct

    def _by_k(self) -> Array:
        """The loss by K, likewise."""
        direct = np.zeros_like(self.kernel)
        if self.lam:
            ratio = np.log(self.kernel[1:] / self.kernel[:-1])
            ratio[: self.first] = 0
            direct[1:] += self.lam * ratio / self.kernel[1:]
            direct[:-1] -= self.lam * ratio / self.kernel[:-1]
        return direct
