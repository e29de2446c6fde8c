"""Noise: independent normal numbers of mean 0 and variance 1, in the shape of an image or any."""

from __future__ import annotations

import torch
from torch import Tensor

from critinit.data._examples import Size
from critinit.data.errors import DataError

SIDE, CHANNELS = 32, 3  # those of CIFAR-10


def example_shape(size: Size | None, channels: int | None) -> tuple[int, ...]:
    """The shape of one example.

    >>> example_shape(None, None), example_shape(28, 1), example_shape((784,), None)
    ((3, 32, 32), (1, 28, 28), (784,))
    """
    sides = (SIDE, SIDE) if size is None else (size, size) if isinstance(size, int) else tuple(size)
    whole = channels is None and len(sides) != 2
    shape = sides if whole else (CHANNELS if channels is None else channels, *sides)
    if not shape or min(shape) < 1:
        raise DataError(f"Noise of shape {shape} is empty: give sizes from 1 up.")
    return shape


def noise(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """N(0, 1) on the CPU, whatever device the generator is on."""
    return torch.randn(shape, generator=generator, device=generator.device).cpu()
