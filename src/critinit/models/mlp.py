"""The multilayer perceptron of eq. mlp_preact."""

from __future__ import annotations

from torch import nn

from critinit.models._draw import check_sigmas, draw_
from critinit.models._options import Activation, activation_layer, check_counts


def mlp(
    width: int = 500,
    depth: int = 10,
    *,
    inputs: int = 784,
    outputs: int = 10,
    activation: Activation = nn.ReLU,
    sigma_w: float | None = None,
    sigma_b: float = 0.0,
) -> nn.Sequential:
    """``h^{l+1} = W φ(h^l) + b`` with ``depth`` hidden layers, so ``depth + 1`` blocks.

    With ``sigma_w`` the weights are drawn from ``N(0, σ_w²/fan_in)`` and the biases from
    ``N(0, σ_b²)``; without it they are torch's default. Examples are flattened first.

    >>> model = mlp(32, 3, inputs=8, outputs=2, sigma_w=2**0.5)
    >>> [type(layer).__name__ for layer in model]
    ['Flatten', 'Linear', 'ReLU', 'Linear', 'ReLU', 'Linear', 'ReLU', 'Linear']
    """
    check_counts(width=width, depth=depth, inputs=inputs, outputs=outputs)
    check_sigmas(sigma_w, sigma_b)
    layers: list[nn.Module] = [nn.Flatten(), nn.Linear(inputs, width)]
    for _ in range(depth - 1):
        layers += [activation_layer(activation), nn.Linear(width, width)]
    layers += [activation_layer(activation), nn.Linear(width, outputs)]
    model = nn.Sequential(*layers)
    if sigma_w is not None:
        draw_(model, sigma_w, sigma_b)
    return model
