"""The initializations that are compared: those of `critinit.baselines` and variants."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

import critinit
from critinit import baselines

Method = Callable[[nn.Module, Tensor, torch.Generator], object]


def _tuned(model: nn.Module, batch: Tensor, generator: torch.Generator, **options: Any) -> None:
    critinit.tune_(model, batch, generator=generator, **options)


def _scaled(
    factor: float, tune: bool, model: nn.Module, batch: Tensor, generator: torch.Generator
) -> None:
    """Kaiming's draw with every weight and bias times ``factor``; tuned, or left so."""
    critinit.reset_(model, "kaiming", generator=generator)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(factor)
    if tune:
        critinit.tune_(model, batch, generator=generator)


METHODS: dict[str, Method] = {name: baselines.find(name) for name in baselines.names()}
METHODS["tuned kaiming"] = partial(_tuned, base="kaiming")
for _factor in (0.5, 2, 4):
    METHODS[f"kaiming ×{_factor:g}"] = partial(_scaled, _factor, False)
    METHODS[f"kaiming ×{_factor:g}, tuned"] = partial(_scaled, _factor, True)
