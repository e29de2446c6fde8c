"""How cost and peak memory grow with depth, width, batch and probes.

Costs are in units of the floor at the base point, measured in turn in the same process.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

import torch
from cost import forward_and_input_backward, ratios
from isolated import Point, Run
from memory import peak
from torch import Tensor, nn

import critinit
from critinit.models import mlp

ROUNDS = 3


@dataclass(frozen=True)
class Size:
    """An MLP and how it is measured."""

    depth: int = 32
    width: int = 256
    batch: int = 128
    probes: int = 1

    def build(self) -> tuple[nn.Module, Tensor]:
        torch.manual_seed(0)
        model = mlp(self.width, self.depth, inputs=self.width, sigma_w=1.2, sigma_b=0.1)
        return model, torch.randn(self.batch, self.width)


BASE = Size()
# For memory: each h^l is 2 MiB, so that other things do not count.
LARGE = Size(depth=8, batch=2048)
AXES = {
    "depth": (8, 16, 32, 64, 128),
    "width": (64, 128, 256, 512, 1024),
    "batch": (32, 64, 128, 256, 512),
    "probes": (1, 2, 4, 8, 16),
}
MEMORY_AXES = AXES | {"batch": (512, 1024, 2048, 4096, 8192)}
# What the operations add up to, not what was found.
EXPECTED_COST = {"depth": 1, "width": 2, "batch": 1, "probes": 1}
EXPECTED_MEMORY = {"depth": 0, "width": 1, "batch": 1, "probes": 0}


def points() -> dict[str, Run]:
    found: dict[str, Run] = {}
    for axis, values in AXES.items():
        for value in values:
            size = replace(BASE, **{axis: value})
            found[f"scaling | {axis} | {value}"] = partial(costs, size)
    for axis, values in MEMORY_AXES.items():
        for value in values:
            for what in ("measure", "tune_"):
                size = replace(LARGE, **{axis: value})
                key = f"scaling memory | {axis} | {value} | {what}"
                found[key] = partial(memory_of, size, what)
    return found


def run(what: str, model: nn.Module, x: Tensor, probes: int) -> None:
    if what == "measure":
        critinit.measure(model, x, probes=probes)
    else:
        critinit.tune_(model, x, probes=probes)


def costs(size: Size) -> Point:
    warnings.simplefilter("ignore")
    base, model = BASE.build(), size.build()
    copies = [copy.deepcopy(model[0]) for _ in range(ROUNDS + 1)]
    found = ratios(
        lambda: forward_and_input_backward(*base, BASE.probes),
        [
            lambda: forward_and_input_backward(*model, size.probes),
            lambda: run("measure", *model, size.probes),
            lambda: run("tune_", copies.pop(), model[1], size.probes),
        ],
        ROUNDS,
    )
    return {**asdict(size), **dict(zip(("floor", "measure", "tune_"), found, strict=True))}


def memory_of(size: Size, what: str) -> Point:
    warnings.simplefilter("ignore")
    model, x = size.build()
    small, few = replace(size, depth=2, width=16, batch=4).build()
    mib = peak(lambda: run(what, model, x, size.probes), lambda: run(what, small, few, size.probes))
    return {**asdict(size), "mib": mib}


def exponent(xs: Sequence[float], ys: Sequence[float]) -> float:
    """The slope of ``log y`` against ``log x``, by least squares."""
    along, up = [math.log(x) for x in xs], [math.log(y) for y in ys]
    middle, height = sum(along) / len(along), sum(up) / len(up)
    over = sum((a - middle) ** 2 for a in along)
    return sum((a - middle) * (u - height) for a, u in zip(along, up, strict=True)) / over
