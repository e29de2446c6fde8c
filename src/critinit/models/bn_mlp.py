"""Residual perceptrons that normalize first: the Pre-BN MLP of eq. bnmlp_preact, and Pre-LN."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from typing import Literal

from torch import Tensor, nn

from critinit.models._draw import check_sigmas, draw_
from critinit.models._options import (
    Activation,
    OptionError,
    activation_layer,
    check_counts,
    check_numbers,
)


class PreNormBlock(nn.Module):
    """``h^{l+1} = W φ(norm(h^l)) + b + μ h^l``."""

    def __init__(self, width: int, norm: nn.Module, activation: nn.Module, mu: float) -> None:
        super().__init__()
        self.norm = norm
        self.activation = activation
        self.linear = nn.Linear(width, width)
        self.mu = mu

    def forward(self, h: Tensor) -> Tensor:
        """Map ``h^l`` to ``h^{l+1}``, both (batch, width)."""
        branch: Tensor = self.linear(self.activation(self.norm(h)))
        return branch + self.mu * h

    def extra_repr(self) -> str:
        """The strength of the skip connection."""
        return f"mu={self.mu}"


def bn_mlp(
    width: int = 500,
    depth: int = 30,
    *,
    mu: float = 1.0,
    norm: Literal["batch", "layer"] = "batch",
    affine: bool = True,
    inputs: int = 784,
    outputs: int = 10,
    activation: Activation = nn.ReLU,
    sigma_w: float | None = None,
    sigma_b: float = 0.0,
) -> nn.Sequential:
    """``h^{l+1} = W φ(BN(h^l)) + b + μ h^l`` (eq. bnmlp_preact), ``depth + 1`` blocks.

    The input layer ``h^1 = W x + b`` has nothing to normalize, and the output layer
    ``W φ(BN(h^L)) + b`` no skip connection. ``affine=False`` leaves out BatchNorm's γ and β, which
    start at 1 and 0; ``norm="layer"`` (or `ln_mlp`) normalizes each example by itself. Weights and
    biases are drawn as by `mlp`.

    >>> import torch, critinit
    >>> model = bn_mlp(16, 3, mu=0.5, inputs=8)
    >>> critinit.trace(model, torch.randn(4, 8)).names
    ['stem', 'blocks.0', 'blocks.1', 'head']
    """
    check_counts(width=width, depth=depth, inputs=inputs, outputs=outputs)
    check_numbers(mu=mu)
    check_sigmas(sigma_w, sigma_b)
    if norm not in ("batch", "layer"):
        raise OptionError(f"norm={norm!r} is unknown. Use 'batch' or 'layer'.")

    def normalization() -> nn.Module:
        if norm == "batch":
            return nn.BatchNorm1d(width, affine=affine)
        return nn.LayerNorm(width, elementwise_affine=affine)

    def block() -> nn.Module:
        return PreNormBlock(width, normalization(), activation_layer(activation), mu)

    layers: OrderedDict[str, nn.Module] = OrderedDict(flatten=nn.Flatten())
    layers["stem"] = nn.Linear(inputs, width)
    layers["blocks"] = nn.Sequential(*(block() for _ in range(depth - 1)))
    layers["norm"] = normalization()
    layers["activation"] = activation_layer(activation)
    layers["head"] = nn.Linear(width, outputs)
    model = nn.Sequential(layers)
    if sigma_w is not None:
        draw_(model, sigma_w, sigma_b)
    return model


ln_mlp = partial(bn_mlp, norm="layer")
