"""ResMLP (eq. resmlp_rec_full): a layer across patches, then two across channels."""

from __future__ import annotations

import math

from critinit.theory._checks import count, numbers
from critinit.theory._names import ActivationLike
from critinit.theory._names import activation as to_activation
from critinit.theory._roots import root
from critinit.theory.activations import Activation
from critinit.theory.errors import TheoryError
from critinit.theory.layers import Chain, Linear, Pointwise, Residual, propagate
from critinit.theory.prediction import Prediction

_SMALLEST = 1e-12


def resmlp_block(
    activation: Activation, sigma_w: float, sigma_b: float, layer_scale: float, mu: float
) -> Chain:
    """``residual1(linear1)``, then ``residual2(linear2, φ, linear3)``.

    The affine layers are the identity at initialization. With K and J of `Linear`, for any number
    of patches and channels, this composes to ``J = (μ² + E²σ_w²)(μ² + E²σ_w⁴ E[φ'(e)²])`` (eq.
    resmlp_apjn) and to the recursion for K (eq. resmlp_nngpk_rec).
    """
    linear = Linear(sigma_w, sigma_b)
    patches = Residual((linear,), layer_scale, mu)
    channels = Residual((linear, Pointwise(activation), linear), layer_scale, mu)
    return Chain((patches, channels))


def resmlp(
    depth: int,
    activation: ActivationLike = "gelu",
    *,
    sigma_w: float = 1.0,
    sigma_b: float = 0.0,
    layer_scale: float = 1.0,
    mu: float = 1.0,
    kernel: float = 1.0,
    correlation: float = 0.0,
) -> Prediction:
    """J and K of the ``depth`` blocks of a ResMLP, from the embedding's K on.

    Every linear layer has weights of variance ``σ_w²/fan_in`` and biases of variance ``σ_b²``.
    ``layer_scale`` is E, which multiplies both branches, and ``mu`` multiplies both skips.

    The layer across patches is shared by all channels, so that at any width K still varies from
    patch to patch where patches have a bias or are correlated. The recursion takes its mean, which
    is exact for ReLU, and for other φ as good as E is small.

    >>> float(resmlp(1, "relu", layer_scale=0.1).apjn[0].round(6))
    1.01505
    """
    block = resmlp_block(to_activation(activation), sigma_w, sigma_b, layer_scale, mu)
    return propagate([block] * count("depth", depth), kernel, correlation)


def largest_layer_scale(
    depth: int,
    tolerance: float,
    activation: ActivationLike = "gelu",
    *,
    sigma_w: float = 1.0,
    sigma_b: float = 0.0,
    mu: float = 1.0,
    kernel: float = 1.0,
    whole: bool = False,
) -> float:
    """The largest E with ``|log J| ≤ tolerance`` for each of ``depth`` blocks.

    With ``whole=True`` the bound is on ``J^{0,depth}``, the product of all blocks (eq. factor).

    >>> blocks = largest_layer_scale(12, 0.1)
    >>> network = largest_layer_scale(12, 0.1, whole=True)
    >>> round(blocks, 3), round(network, 3)
    (0.262, 0.076)
    """
    phi, tolerance = to_activation(activation), float(numbers("tolerance", tolerance))
    count("depth", depth)
    if tolerance <= 0:
        raise TheoryError(f"tolerance={tolerance:g}: a positive bound on |log J| is needed.")

    def excess(scale: float) -> tuple[float, float]:
        block = resmlp_block(phi, sigma_w, sigma_b, scale, mu)
        logs = propagate([block] * depth, kernel, correlation=1.0).log_apjn
        extremes = (logs.sum(), logs.sum()) if whole else (logs.max(), logs.min())
        return float(extremes[0]) - tolerance, -tolerance - float(extremes[1])

    low, high = _SMALLEST, 1.0
    if excess(low)[0] > 0:
        raise TheoryError(f"no layer scale helps: the skips alone have log J above {tolerance:g}.")
    while excess(high)[0] <= 0:
        low, high = high, 2 * high
        if high > 1e6:
            raise TheoryError("no layer scale is too large here: the branches pass no gradient.")
    ends = math.log(low), math.log(high)
    scale = math.exp(root(lambda log: excess(math.exp(log))[0], *ends))
    if excess(scale)[1] > 1e-9 * tolerance:
        raise TheoryError(
            f"no layer scale brings every J within {tolerance:g}: with mu={mu:g} some block "
            "stays below. Take mu=1."
        )
    return scale
