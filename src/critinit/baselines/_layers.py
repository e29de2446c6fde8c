"""The layers whose weights are drawn, and an orthogonal draw of any gain."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.modules.conv import _ConvNd

from critinit._parametrized import scale_weight
from critinit._state import all_or_nothing
from critinit.base import reset_


def draw_orthogonal(
    model: nn.Module, gain: float, bias_std: float, generator: torch.Generator
) -> None:
    """As `critinit.reset_` does it, with a gain other than 1."""
    with all_or_nothing(model):
        reset_(model, "orthogonal", bias_std=bias_std, generator=generator)
        for layer in {identity(layer): layer for layer in drawn_layers(model)}.values():
            scale_weight(layer, gain)


def drawn_layers(model: nn.Module) -> list[nn.Module]:
    """Linear layers and convolutions, but those whose weight is frozen."""
    kinds = (nn.Linear, nn.Bilinear, _ConvNd)
    return [
        layer
        for layer in model.modules()
        if isinstance(layer, kinds)
        and any(p.requires_grad and p.ndim > 1 for p in layer.parameters())
    ]


def identity(layer: nn.Module) -> int:
    """The same for tied layers; a parametrized weight is a fresh tensor every time."""
    weight = layer._parameters.get("weight")
    return id(layer if weight is None else weight)
