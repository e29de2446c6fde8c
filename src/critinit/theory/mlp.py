"""The multilayer perceptron (eq. mlp_preact), with the twin's multipliers (eq. twin_preact)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from critinit.theory._checks import Array, count, non_negative, numbers, per_layer, variance
from critinit.theory._names import ActivationLike
from critinit.theory._names import activation as to_activation
from critinit.theory.activations import Activation
from critinit.theory.errors import TheoryError
from critinit.theory.layers import Chain, Layer, Linear, Pointwise, propagate
from critinit.theory.prediction import Prediction


def mlp(
    depth: int,
    activation: ActivationLike = "relu",
    *,
    sigma_w: ArrayLike,
    sigma_b: ArrayLike = 0.0,
    a_w: ArrayLike = 1.0,
    a_b: ArrayLike = 1.0,
    kernel: float = 1.0,
    correlation: float = 0.0,
) -> Prediction:
    """J, K and the correlation of an MLP with ``depth`` hidden layers, block by block.

    ``K^{l+1}(x, x') = (a_W σ_w)² E[φ(h(x)) φ(h(x'))] + (a_b σ_b)²`` with ``h ~ N(0, K^l)``, and
    ``J^{l,l+1} = (a_W σ_w)² E[φ'(h)²]`` (after eq. mlp_preact). Block 0 is the input layer, which
    has no activation. The network is that of ``critinit.models.mlp``.

    Args:
        depth: Hidden layers, L.
        activation: φ; see `activation`.
        sigma_w: Weights have variance ``σ_w²/fan_in``. One number, or one for each of the
            ``depth + 1`` linear layers, as for the next three.
        sigma_b: Biases have variance ``σ_b²``.
        a_w: The twin's multipliers of the weights.
        a_b: The twin's multipliers of the biases.
        kernel: ``K^0(x, x)``, the mean square of the inputs.
        correlation: The cosine between two inputs.

    >>> profile = mlp(30, "tanh", sigma_w=1.5, sigma_b=0.1)
    >>> profile.apjn[[0, 1, -1]].round(4).tolist()  # the first is σ_w²
    [2.25, 0.7456, 1.1291]
    """
    phi = to_activation(activation)
    first, *others = linear_layers(count("depth", depth) + 1, sigma_w, sigma_b, a_w, a_b)
    blocks: list[Layer] = [first, *(Chain((Pointwise(phi), linear)) for linear in others)]
    return propagate(blocks, kernel, correlation)


def linear_layers(
    layers: int, sigma_w: ArrayLike, sigma_b: ArrayLike, a_w: ArrayLike = 1.0, a_b: ArrayLike = 1.0
) -> list[Linear]:
    """Each linear layer with its own standard deviations, ``a_W σ_w`` and ``a_b σ_b``."""
    w = np.abs(per_layer("a_w", a_w, layers)) * non_negative(
        "sigma_w", per_layer("sigma_w", sigma_w, layers)
    )
    b = np.abs(per_layer("a_b", a_b, layers)) * non_negative(
        "sigma_b", per_layer("sigma_b", sigma_b, layers)
    )
    return [Linear(*each) for each in zip(w.tolist(), b.tolist(), strict=True)]


def nngp(
    gram: ArrayLike,
    depth: int,
    activation: ActivationLike = "relu",
    *,
    sigma_w: ArrayLike,
    sigma_b: ArrayLike = 0.0,
    a_w: ArrayLike = 1.0,
    a_b: ArrayLike = 1.0,
) -> Array:
    """``K^l(x, x')`` for all pairs of any inputs: shape ``(depth + 2, n, n)``.

    ``gram`` is ``K^0(x, x') = x·x'/N_0``; `mlp` is the case of inputs that are all alike.

    >>> nngp([[1.0, 0.5], [0.5, 2.0]], 1, "linear", sigma_w=2.0)[-1].tolist()
    [[16.0, 8.0], [8.0, 32.0]]
    """
    phi, k = to_activation(activation), numbers("gram", gram)
    if k.ndim != 2 or k.shape[0] != k.shape[1] or not np.allclose(k, k.T):
        raise TheoryError(f"gram has shape {k.shape}: a symmetric square matrix is needed.")
    layers = linear_layers(count("depth", depth) + 1, sigma_w, sigma_b, a_w, a_b)
    kernels = [k]
    for i, layer in enumerate(layers):
        behind = k if i == 0 else _pairs(phi, k)
        k = layer.sigma_w**2 * behind + layer.sigma_b**2
        kernels.append(k)
    return np.stack(kernels)


def _pairs(phi: Activation, k: Array) -> Array:
    """``E[φ(h(x)) φ(h(x'))]``; each pair once."""
    variances = variance("K", np.diag(k))
    row, column = np.triu_indices(len(k), 1)
    out = np.diag(np.atleast_1d(phi.second_moment(variances)))
    if len(row):
        above = phi.product(variances[row], variances[column], k[row, column])
        out[row, column] = out[column, row] = above
    return out
