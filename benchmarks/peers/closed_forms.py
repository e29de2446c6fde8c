"""Draws that need no data, by critinit.baselines."""

from __future__ import annotations

from functools import partial

from torch import nn

from critinit import baselines
from peers._method import Batches, Method


def draw(name: str, model: nn.Module, batches: Batches, _: int) -> None:
    baselines.find(name)(model, batches[0][0])


METHODS = tuple(
    Method(shown, f"{baselines.find(name).summary}; biases 0", partial(draw, name))
    for shown, name in (("Kaiming", "kaiming"), ("orthogonal", "orthogonal"))
)
