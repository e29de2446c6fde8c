"""Learning rates of Algorithm 1 for linear and (leaky) ReLU networks.

There ``J = g (a_W σ_w)²`` with ``g = E[φ'²]`` (½ for ReLU, 1 for linear), so that every block
moves by itself: ``√J(t+1) = √J(t) − 2g η σ_w² log J/√J`` for JLL (eq. relu_jupdate), and
``√J(t+1) = √J(t) − 2g η σ_w² √J (J − 1)`` for JSL (eq. j_update_jsl).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from critinit.theory._checks import Array, non_negative
from critinit.theory._names import ActivationLike
from critinit.theory._names import activation as to_activation
from critinit.theory.closed_forms import LeakyReLU
from critinit.theory.errors import TheoryError
from critinit.theory.gradients import Loss


def eta_one_step(
    apjn: ArrayLike, sigma_w: ArrayLike, loss: Loss = "jll", activation: ActivationLike = "relu"
) -> Array:
    """The rate that brings a block from J to 1 in one step (eq. 1step_lr, and its JSL form).

    >>> float(eta_one_step(4.0, sigma_w=8**0.5).round(4))
    0.1803
    """
    return _half_bound(np.asarray(apjn), sigma_w, loss, activation)[()]


def eta_t(
    apjn: ArrayLike, sigma_w: ArrayLike, loss: Loss = "jll", activation: ActivationLike = "relu"
) -> float:
    """The rate below which every block comes nearer to J = 1 (eq. eta_t, eq. eta_t_jsl).

    The least over the blocks of twice the one-step rate.

    >>> round(eta_t([4.0, 1.0], sigma_w=8**0.5), 4)
    0.125
    """
    return float(2 * np.min(_half_bound(np.asarray(apjn), sigma_w, loss, activation)))


def eta_0(
    sigma_w: ArrayLike,
    loss: Loss = "jll",
    activation: ActivationLike = "relu",
    a_w: ArrayLike = 1.0,
) -> Array:
    """η_t at the start, where ``J = g (a_W σ_w)²`` (eq. eta_0_jl, and its JSL form).

    >>> import numpy as np
    >>> eta_0(np.array([1.0, 2.0]), "jsl").round(4).tolist()  # falls as σ_w⁻⁴
    [1.6569, 0.1464]
    """
    phi = _homogeneous(activation)
    apjn = phi.gain * (np.asarray(a_w) * np.asarray(sigma_w)) ** 2
    return (2 * _half_bound(apjn, sigma_w, loss, phi))[()]


def _half_bound(apjn: Array, sigma_w: ArrayLike, loss: Loss, activation: ActivationLike) -> Array:
    scale = 2 * _homogeneous(activation).gain * non_negative("sigma_w", sigma_w) ** 2
    if not ((apjn > 0).all() and np.isfinite(apjn).all() and np.all(scale > 0)):
        raise TheoryError("J and σ_w must be positive and finite for a learning rate to exist.")
    root = np.sqrt(apjn)
    if loss == "jll":
        half = np.log(apjn) / 2
        with np.errstate(invalid="ignore", divide="ignore"):
            quotient = np.where(np.abs(half) > 1e-12, np.expm1(half) / (2 * half), 0.5)
        return np.asarray(root * quotient / scale)
    if loss == "jsl":
        return np.asarray(1 / (scale * root * (1 + root)))
    raise TheoryError(f"learning rates are known for 'jll' and 'jsl', not for loss={loss!r}.")


def _homogeneous(activation: ActivationLike) -> LeakyReLU:
    phi = to_activation(activation)
    if not isinstance(phi, LeakyReLU):
        raise TheoryError(
            f"learning rates are known for linear, ReLU and leaky ReLU, not for {phi.name}. Use "
            "dynamics() to try some."
        )
    return phi
