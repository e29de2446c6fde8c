"""Findings of every kind to report on, each made once."""

from __future__ import annotations

import math
from functools import cache

import torch
from torch import Tensor, nn

import critinit
from critinit.models import mlp
from critinit.report import Comparison


class Odd(nn.Module):
    """A network whose names would break a page that does not escape them."""

    NAMES = ('a<b>&"c"', "<script>alert('x')</script>", "</table><&>")

    def __init__(self) -> None:
        super().__init__()
        for name, width in zip(self.NAMES, (20, 16, 16), strict=True):
            self.add_module(name, nn.Linear(width, 16))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.children():
            x = layer(x).tanh()
        return x


Odd.__name__ = "Odd<&>"


def rows(n: int = 16, width: int = 20) -> Tensor:
    return torch.randn(n, width, generator=torch.Generator().manual_seed(1))


def network(depth: int = 5, **options: float) -> nn.Module:
    torch.manual_seed(0)
    return mlp(64, depth, inputs=20, outputs=64, **options)


@cache
def measured() -> critinit.Profile:
    return critinit.measure(network(), rows())


@cache
def tuned() -> critinit.Result:
    return critinit.tune_(network(), rows())


@cache
def descended() -> critinit.Result:
    return critinit.tune_(network(3), rows(), solver=critinit.SGD(steps=4))


@cache
def dead() -> critinit.Profile:
    model = network()
    nn.init.zeros_(model[-1].weight)
    return critinit.measure(model, rows())


@cache
def single() -> critinit.Profile:
    return critinit.measure(nn.Linear(20, 16), rows(1))


@cache
def odd() -> critinit.Result:
    torch.manual_seed(0)
    return critinit.tune_(Odd(), rows())


@cache
def compared() -> Comparison:
    found = {"default": measured(), "<b>kaiming": critinit.measure(network(sigma_w=2**0.5), rows())}
    return Comparison(found, {"default": 0.25}, {"lsuv": "no <weight> & such"})


@cache
def scanned() -> critinit.BatchScan:
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for _ in range(6):
        layers += [nn.Linear(20, 20), nn.BatchNorm1d(20), nn.ReLU()]
    return critinit.batch_scan(nn.Sequential(*layers), rows(32), sizes=(1, 2, 8, 32, 64))


def profile_of(
    j: list[float], *, se: float = 0.01, k: list[float] | None = None, end: float = 0.1
) -> critinit.Profile:
    """A profile with these J, the input block's first; ``se`` is relative."""
    apjn = torch.tensor(j)
    kernel = torch.ones(len(j) + 1) if k is None else torch.tensor(k)
    return critinit.Profile(
        names=[f"layer{i}" for i in range(len(j))],
        apjn=apjn,
        apjn_se=se * apjn,
        kernel=kernel,
        correlation=torch.linspace(0.0, end, len(j) + 1),
        model="Made",
        method="vjp",
        span=1,
        probes=1,
        batches=1,
        batch_size=8,
    )


def deep(blocks: int = 400) -> critinit.Profile:
    """So deep that the product of its J is below what a float can hold."""
    return profile_of([0.01] * blocks)


def broken() -> critinit.Profile:
    return profile_of([1.0, math.inf, math.nan, 0.0, 0.5], k=[1.0, math.inf, math.nan, 0, 1, 1])


SUBJECTS = {
    "measured": measured,
    "tuned by a sweep": tuned,
    "tuned by descent": descended,
    "a dead block": dead,
    "one block, one example": single,
    "names to escape": odd,
    "compared": compared,
    "scanned": scanned,
    "deep": deep,
    "not finite": broken,
}
