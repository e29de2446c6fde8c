"""The layers whose weights are drawn."""

from __future__ import annotations

from torch import nn
from torch.nn.modules.conv import _ConvNd


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
