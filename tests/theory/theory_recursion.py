"""The MLP's recursion written out in torch, so that autograd can differentiate it: a reference."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

Moments = Callable[[Tensor], tuple[Tensor, Tensor]]


def _relu(k: Tensor) -> tuple[Tensor, Tensor]:
    return k / 2, torch.full_like(k, 0.5)


def _linear(k: Tensor) -> tuple[Tensor, Tensor]:
    return k, torch.ones_like(k)


def _leaky(k: Tensor) -> tuple[Tensor, Tensor]:
    return k * 0.50005, torch.full_like(k, 0.50005)


def _erf(k: Tensor) -> tuple[Tensor, Tensor]:
    return 2 / math.pi * torch.asin(2 * k / (1 + 2 * k)), 4 / math.pi / torch.sqrt(1 + 4 * k)


def _gelu(k: Tensor) -> tuple[Tensor, Tensor]:
    """G and H_e as the paper prints them."""
    arc = torch.asin(k / (1 + k))
    second = k / 4 + k / (2 * math.pi) * arc + k**2 / (math.pi * (1 + k) * torch.sqrt(1 + 2 * k))
    slope = 0.25 + (arc + k * (3 + 5 * k) / ((1 + k) * (1 + 2 * k) ** 1.5)) / (2 * math.pi)
    return second, slope


def _dense(phi: Callable[[Tensor], Tensor], slope: Callable[[Tensor], Tensor]) -> Moments:
    """By the trapezoidal rule, which is exact to rounding for entire functions."""
    z = torch.tensor(np.linspace(-12, 12, 4001))
    weight = torch.exp(-(z**2) / 2)
    weight = weight / weight.sum()

    def moments(k: Tensor) -> tuple[Tensor, Tensor]:
        u = torch.sqrt(k) * z
        return (weight * phi(u) ** 2).sum(), (weight * slope(u) ** 2).sum()

    return moments


def _silu_slope(u: Tensor) -> Tensor:
    s = torch.sigmoid(u)
    return s * (1 + u * (1 - s))


MOMENTS: dict[str, Moments] = {
    "relu": _relu,
    "linear": _linear,
    "leaky_relu": _leaky,
    "erf": _erf,
    "gelu": _gelu,
    "tanh": _dense(torch.tanh, lambda u: 1 - torch.tanh(u) ** 2),
    "silu": _dense(torch.nn.functional.silu, _silu_slope),
    "sin": _dense(torch.sin, torch.cos),
}


def recursion(
    name: str, sigma_w: float, sigma_b: float, a_w: Tensor, a_b: Tensor, kernel: float
) -> tuple[Tensor, Tensor]:
    """J of every block and K of every tensor, as functions of the multipliers."""
    k, j = [torch.tensor(kernel, dtype=torch.float64)], []
    for layer in range(len(a_w)):
        second, slope = MOMENTS[name](k[-1]) if layer else (k[0], torch.ones_like(k[0]))
        k.append((a_w[layer] * sigma_w) ** 2 * second + (a_b[layer] * sigma_b) ** 2)
        j.append((a_w[layer] * sigma_w) ** 2 * slope)
    return torch.stack(j), torch.stack(k)
