"""The paper's distribution of weights and biases at initialization."""

from __future__ import annotations

import math

from torch import nn

from critinit.models._options import OptionError, check_numbers


def draw_(model: nn.Module, sigma_w: float, sigma_b: float) -> None:
    """``W ~ N(0, σ_w²/fan_in)`` and ``b ~ N(0, σ_b²)`` for linear layers and convolutions.

    Everything else (normalizations, LayerScale) keeps its value.
    """
    for layer in model.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            fan_in = layer.weight[0].numel()
            nn.init.normal_(layer.weight, std=sigma_w / math.sqrt(fan_in))
            if layer.bias is not None:
                nn.init.normal_(layer.bias, std=sigma_b)


def check_sigmas(sigma_w: float | None, sigma_b: float) -> None:
    """Refuse negative deviations, and a σ_b that would go unused."""
    check_numbers(sigma_w=sigma_w or 0.0, sigma_b=sigma_b)
    for name, value in (("sigma_w", sigma_w or 0.0), ("sigma_b", sigma_b)):
        if value < 0:
            raise OptionError(f"{name}={value}: a standard deviation is a number from 0 up.")
    if sigma_w is None and sigma_b:
        raise OptionError(
            f"sigma_b={sigma_b} without sigma_w: the default initialization draws its own biases. "
            "Give sigma_w too."
        )
