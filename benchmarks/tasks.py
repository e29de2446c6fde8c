"""Batches for methods that learn from data."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def tasks(shape: tuple[int, ...], count: int) -> list[tuple[Tensor, Tensor]]:
    """Batches of noise, with ten labels that can be learned from them."""
    generator = torch.Generator().manual_seed(1)
    teacher = torch.randn(math.prod(shape[1:]), 10, generator=generator)
    images = [torch.randn(shape, generator=generator) for _ in range(count)]
    return [(x, (x.flatten(1) @ teacher).argmax(1)) for x in images]
