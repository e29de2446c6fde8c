"""MLPs with LayerNorm before each activation, plain or residual."""

from __future__ import annotations

from critinit.theory._checks import count
from critinit.theory._names import ActivationLike
from critinit.theory._names import activation as to_activation
from critinit.theory.layers import Layer, LayerNorm, Linear, Pointwise, Residual, propagate
from critinit.theory.prediction import Prediction


def ln_mlp(
    depth: int,
    activation: ActivationLike = "relu",
    *,
    sigma_w: float,
    sigma_b: float = 0.0,
    mu: float = 0.0,
    kernel: float = 1.0,
    correlation: float = 0.0,
) -> Prediction:
    """``h^{l+1} = W φ(LN(h^l)) + b + μ h^l``, behind a linear input layer.

    ``K^{l+1} = σ_w² E[φ(z)²] + σ_b² + μ² K^l`` and ``J^{l,l+1} = σ_w² E[φ'(z)²]/K^l + μ²`` with
    ``z ~ N(0, 1)``. Plain for μ = 0, pre-LN residual for μ = 1. No batch size enters: LayerNorm
    does not mix examples. For other placements compose `layers` yourself.

    >>> ln_mlp(3, "relu", sigma_w=0.7).apjn[1:].round(6).tolist()  # K^1 = σ_w², then ½σ_w²
    [0.5, 1.0, 1.0]
    """
    linear = Linear(sigma_w, sigma_b)
    branch: tuple[Layer, ...] = (LayerNorm(), Pointwise(to_activation(activation)), linear)
    blocks: list[Layer] = [linear, *[Residual(branch, skip=mu)] * count("depth", depth)]
    return propagate(blocks, kernel, correlation)
