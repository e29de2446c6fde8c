"""Finite networks of the kinds that theory predicts, and how the two are compared."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import critinit
from critinit.theory import Prediction

Phi = Callable[[Tensor], Tensor]


class PreNorm(nn.Module):
    """``W φ(norm(h)) + b + μ h``."""

    def __init__(self, norm: nn.Module, width: int, phi: Phi, mu: float) -> None:
        super().__init__()
        self.norm, self.linear = norm, nn.Linear(width, width)
        self.phi, self.mu = phi, mu

    def forward(self, h: Tensor) -> Tensor:
        return self.linear(self.phi(self.norm(h))) + self.mu * h


def pre_norm(
    kind: Callable[[int], nn.Module], width: int, depth: int, phi: Phi, mu: float
) -> nn.Module:
    """An input layer and ``depth`` blocks."""
    blocks = [PreNorm(kind(width), width, phi, mu) for _ in range(depth)]
    return nn.Sequential(nn.Linear(width, width), *blocks)


class ResMLPBlock(nn.Module):
    """Across patches, then across channels, on ``(batch, patches, channels)``."""

    def __init__(self, patches: int, channels: int, phi: Phi, scale: float, mu: float) -> None:
        super().__init__()
        self.across = nn.Linear(patches, patches)
        self.up, self.down = nn.Linear(channels, 4 * channels), nn.Linear(4 * channels, channels)
        self.phi, self.scale, self.mu = phi, scale, mu

    def forward(self, h: Tensor) -> Tensor:
        h = self.scale * self.across(h.transpose(1, 2)).transpose(1, 2) + self.mu * h
        return self.scale * self.down(self.phi(self.up(h))) + self.mu * h


def draw(model: nn.Module, sigma_w: float, sigma_b: float) -> None:
    """``N(0, σ_w²/fan_in)`` and ``N(0, σ_b²)`` for every linear layer."""
    for layer in model.modules():
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, std=sigma_w / math.sqrt(layer.in_features))
            nn.init.normal_(layer.bias, std=sigma_b)


def inputs(examples: int, size: int, correlation: float = 0.0) -> Tensor:
    """Examples of mean square 1, each two of them with exactly this cosine."""
    basis, _ = torch.linalg.qr(torch.randn(size, examples + 1, dtype=torch.float64))
    common, own = basis[:, :1], basis[:, 1:]
    x = math.sqrt(correlation) * common + math.sqrt(1 - correlation) * own
    return (x.T * math.sqrt(size)).float()


def assert_predicted(
    model: nn.Module,
    redraw: Callable[[], None],
    x: Tensor,
    predicted: Prediction,
    *,
    draws: int,
    finite: float,
    sigmas: float = 4.0,
) -> None:
    """J, K and the correlation of every block, averaged over draws, are as predicted.

    The mean may be off by ``sigmas`` standard errors and by ``finite`` times the number of layers
    so far: what theory leaves out is of order 1/N for each layer. The bound must be tight enough
    to mean something: no more than 20 % for any J and K, 10 % on average.
    """
    chain = critinit.trace(model, x)
    found = []
    for seed in range(draws):
        redraw()
        generator = torch.Generator().manual_seed(seed)
        profile = critinit.measure(chain, x, generator=generator)
        assert len(profile) == len(predicted)
        found.append([profile.apjn, profile.kernel[1:], profile.correlation[1:]])
    layers = np.arange(1, len(predicted) + 1)
    for name, rows, expected in zip(
        ("J", "K", "correlation"),
        zip(*found, strict=True),
        (predicted.apjn, predicted.kernel[1:], predicted.correlation[1:]),
        strict=True,
    ):
        samples = torch.stack(rows).double().numpy()
        if np.isnan(samples).all():  # one example
            continue
        error = samples.std(axis=0, ddof=1) / draws**0.5
        scale = np.abs(expected) if name != "correlation" else np.ones_like(expected)
        allowed = sigmas * error + finite * layers * scale
        off = samples.mean(axis=0) - expected
        assert (np.abs(off) <= allowed).all(), f"{name} off by {off / allowed} of what is allowed"
        assert (allowed <= 0.2 * scale).all(), f"{name}: too few draws"
        assert (allowed / scale).mean() <= 0.1, f"{name}: too few draws"


FUNCTIONS: dict[str, Phi] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "gelu": F.gelu,
    "erf": torch.erf,
    "selu": F.selu,
    "silu": F.silu,
    "sin": torch.sin,
}


def module(name: str) -> Callable[[], nn.Module]:
    """The activation as a module, for `critinit.models.mlp`."""

    class Applied(nn.Module):
        def forward(self, u: Tensor) -> Tensor:
            return FUNCTIONS[name](u)

    return Applied
