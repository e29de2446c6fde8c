"""Gradients of the losses with respect to an MLP's multipliers (eq. a_update to eq. tauto_ab).

J of a block depends on its own ``a_W`` directly, and on every earlier multiplier through K. The
first is the *isolated* term, which keeps gradients from vanishing (eq. iso); the second are the
*depth* terms, which could make them explode.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from critinit.theory._checks import (
    Array,
    count,
    non_negative,
    number,
    per_layer,
    positive,
    variance,
)
from critinit.theory._names import ActivationLike
from critinit.theory._names import activation as to_activation
from critinit.theory.activations import Activation
from critinit.theory.errors import TheoryError

Loss = Literal["jll", "jsl", "jkl"]


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """How J and K of every block answer to every multiplier.

    In the matrices the row is the block ``l'`` and the column the linear layer ``l`` whose
    multipliers ``a^{l+1}`` change, both from 0 (input) to ``depth``. Rows of K are ``K^{l'+1}``.

    Attributes:
        apjn: ``J^{l',l'+1}``.
        kernel: ``K^0 … K^{L+1}``.
        log_apjn_by_weight: ``∂log J^{l',l'+1}/∂a_W^{l+1}``. On the diagonal, the isolated
            ``2/a_W``; below it ``χ_Δ^{l'} χ_K^{l'−1} … χ_K^{l+1} ∂K^{l+1}/∂a_W / J`` with
            ``∂K^{l+1}/∂a_W = 2 a_W σ_w² E[φ²]`` (eq. tauto_aw, with 2 for its 4, and without
            the bias's share of K).
        log_apjn_by_bias: ``∂log J^{l',l'+1}/∂a_b^{l+1}``: the same with
            ``∂K^{l+1}/∂a_b = 2 a_b σ_b²`` (eq. tauto_ab, with 2 for its 4).
        log_kernel_by_weight: ``∂log K^{l'+1}/∂a_W^{l+1}``.
        log_kernel_by_bias: ``∂log K^{l'+1}/∂a_b^{l+1}``.
    """

    apjn: Array
    kernel: Array
    log_apjn_by_weight: Array
    log_apjn_by_bias: Array
    log_kernel_by_weight: Array
    log_kernel_by_bias: Array


def sensitivity(
    depth: int,
    activation: ActivationLike = "relu",
    *,
    sigma_w: ArrayLike,
    sigma_b: ArrayLike = 0.0,
    a_w: ArrayLike = 1.0,
    a_b: ArrayLike = 1.0,
    kernel: float = 1.0,
) -> Sensitivity:
    """Derivatives of all J and K; the arguments are those of `mlp`.

    >>> found = sensitivity(2, "relu", sigma_w=1.5, sigma_b=0.1)
    >>> found.log_apjn_by_weight.tolist()  # χ_Δ = 0 leaves only the isolated terms
    [[2.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 2.0]]
    """
    layers = count("depth", depth) + 1
    weight, bias = per_layer("a_w", a_w, layers), per_layer("a_b", a_b, layers)
    if (weight == 0).any():
        raise TheoryError("a_w holds a zero: log J is −∞ there and has no derivative.")
    w = positive("sigma_w", per_layer("sigma_w", sigma_w, layers)) ** 2
    b = non_negative("sigma_b", per_layer("sigma_b", sigma_b, layers)) ** 2
    phi = to_activation(activation)
    k = np.zeros(layers + 1)
    k[0] = positive("kernel", variance("kernel", number("kernel", kernel)))
    moments = np.zeros((4, layers))
    for i in range(layers):
        moments[:, i] = _moments(phi, k[i]) if i else (k[0], 1.0, 1.0, 0.0)
        k[i + 1] = weight[i] ** 2 * w[i] * moments[0, i] + bias[i] ** 2 * b[i]
    variance("K", k)
    j, chi_k, chi_delta = weight**2 * w * moments[1:]
    dk_w = _through_kernels(chi_k, 2 * weight * w * moments[0])
    dk_b = _through_kernels(chi_k, 2 * bias * b)
    below = (chi_delta / j)[:, None]
    before = [np.vstack([np.zeros(layers), dk[:-1]]) for dk in (dk_w, dk_b)]
    return Sensitivity(
        apjn=j,
        kernel=k,
        log_apjn_by_weight=np.diag(2 / weight) + below * before[0],
        log_apjn_by_bias=below * before[1],
        log_kernel_by_weight=dk_w / k[1:, None],
        log_kernel_by_bias=dk_b / k[1:, None],
    )


def _moments(phi: Activation, k: float) -> tuple[float, float, float, float]:
    return (
        float(phi.second_moment(k)),
        float(phi.slope_moment(k)),
        float(phi.chi_k(k)),
        float(phi.chi_delta(k)),
    )


def _through_kernels(chi_k: Array, own: Array) -> Array:
    """``∂K^{l'+1}/∂a^{l+1}``: its ``own`` on the diagonal, carried down by χ_K."""
    rows = [np.zeros(len(own))]
    for i, chi in enumerate(chi_k):
        rows.append(chi * rows[-1])
        rows[-1][i] = own[i]
    return np.stack(rows[1:])


@dataclass(frozen=True, eq=False)
class LossGradient:
    """A loss and its gradient, one entry for each linear layer.

    Attributes:
        loss: Its value.
        weight_isolated: What the layer's own block adds to ``∂L/∂a_W``.
        weight_depth: What all later blocks add.
        bias_isolated: The same for ``∂L/∂a_b``; zero without a term in K.
        bias_depth: What all later blocks add.
    """

    loss: float
    weight_isolated: Array
    weight_depth: Array
    bias_isolated: Array
    bias_depth: Array

    @property
    def weight(self) -> Array:
        """``∂L/∂a_W``."""
        return self.weight_isolated + self.weight_depth

    @property
    def bias(self) -> Array:
        """``∂L/∂a_b``."""
        return self.bias_isolated + self.bias_depth


def loss_gradient(
    depth: int,
    activation: ActivationLike = "relu",
    *,
    sigma_w: ArrayLike,
    sigma_b: ArrayLike = 0.0,
    a_w: ArrayLike = 1.0,
    a_b: ArrayLike = 1.0,
    kernel: float = 1.0,
    loss: Loss = "jll",
    lam: float = 0.05,
) -> LossGradient:
    """The gradient that Algorithm 1 follows, isolated and depth-dependent terms apart.

    ``"jll"`` is ``½ Σ (log J)²`` over ``l = 1 … L`` (eq. loss_sq_J), ``"jsl"`` is ``½ Σ (J − 1)²``,
    and ``"jkl"`` is ``½ Σ (log J)² + λ/2 Σ (log K^{l+1}/K^l)²`` over ``l = 0 … L`` (eq. jkle). The
    other arguments are those of `mlp`.

    >>> found = loss_gradient(5, "tanh", sigma_w=2.0, sigma_b=0.5)
    >>> bool(abs(found.weight_depth[1:]).max() < abs(found.weight_isolated[1:]).max())
    True
    """
    found = sensitivity(
        depth, activation, sigma_w=sigma_w, sigma_b=sigma_b, a_w=a_w, a_b=a_b, kernel=kernel
    )
    lam = check_loss(loss, lam)
    start = first_block(loss)
    log_j = np.log(found.apjn)
    ratio = np.log(found.kernel[1:] / found.kernel[:-1])
    residual = found.apjn - 1 if loss == "jsl" else log_j
    pull = residual * (found.apjn if loss == "jsl" else 1.0)
    terms = []
    for by_j, by_k in (
        (found.log_apjn_by_weight, found.log_kernel_by_weight),
        (found.log_apjn_by_bias, found.log_kernel_by_bias),
    ):
        steps = np.diff(by_k, axis=0, prepend=np.zeros((1, len(by_k))))
        each = (pull[:, None] * by_j + lam * ratio[:, None] * steps)[start:]
        own = np.concatenate([np.zeros(start), np.diagonal(each, start)])
        terms += [own, each.sum(axis=0) - own]
    value = 0.5 * float((residual[start:] ** 2).sum() + lam * (ratio[start:] ** 2).sum())
    return LossGradient(value, *terms)


def check_loss(loss: str, lam: float) -> float:
    """λ of this loss: zero without a term in K."""
    if loss not in ("jll", "jsl", "jkl"):
        raise TheoryError(f"loss={loss!r} is unknown. Use 'jll', 'jsl' or 'jkl'.")
    return float(non_negative("lam", lam)) if loss == "jkl" else 0.0


def first_block(loss: str) -> int:
    """JKL counts the input block, the others do not."""
    return 0 if loss == "jkl" else 1
