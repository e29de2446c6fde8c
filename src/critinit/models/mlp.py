"""The multilayer perceptron of eq. mlp_preact."""

from __future__ import annotations

import math
from collections.abc import Callable

from torch import nn


def mlp(
    width: int = 500,
    depth: int = 10,
    *,
    inputs: int = 784,
    outputs: int = 10,
    activation: Callable[[], nn.Module] = nn.ReLU,
    sigma_w: float | None = None,
    sigma_b: float = 0.0,
) -> nn.Sequential:
    """``h^{l+1} = W φ(h^l) + b`` with ``depth`` hidden layers.

    With ``sigma_w`` the weights are drawn from ``N(0, σ_w²/fan_in)`` and the biases from
    ``N(0, σ_b²)``; without it they are torch's default. Examples are flattened first.

    >>> model = mlp(32, 3, inputs=8, outputs=2, sigma_w=2**0.5)
    >>> [type(layer).__name__ for layer in model]
    ['Flatten', 'Linear', 'ReLU', 'Linear', 'ReLU', 'Linear', 'ReLU', 'Linear']
    """
    layers: list[nn.Module] = [nn.Flatten(), nn.Linear(inputs, width)]
    for _ in range(depth - 1):
        layers += [activation(), nn.Linear(width, width)]
    layers += [activation(), nn.Linear(width, outputs)]
    if sigma_w is not None:
        for layer in layers:
            if isinstance(layer, nn.Linear):
                nn.init.normal_(layer.weight, std=sigma_w / math.sqrt(layer.in_features))
                nn.init.normal_(layer.bias, std=sigma_b)
    return nn.Sequential(*layers)
