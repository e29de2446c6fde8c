"""A user's file: networks for the tests of the command line."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def plain(width: int = 16, depth: int = 3, bias: bool = True, slope: float = 0.1) -> nn.Module:
    layers: list[nn.Module] = []
    for _ in range(depth):
        layers += [nn.Linear(width, width, bias), nn.LeakyReLU(slope)]
    return nn.Sequential(*layers)


class Tied(nn.Module):
    """The same weight twice, as in language models."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.inner = nn.Linear(16, 16)
        self.head = nn.Linear(16, 50, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: Tensor) -> Tensor:
        out: Tensor = self.head(self.inner(self.embed(tokens)).tanh())
        return out


tied = Tied


class Breaks(nn.Sequential):
    """NaN behind the second layer."""

    def __init__(self) -> None:
        super().__init__(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh())
        self.append(Root())


class Root(nn.Linear):
    def __init__(self) -> None:
        super().__init__(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).sqrt()


breaks = Breaks


class Raises(nn.Linear):
    def __init__(self) -> None:
        super().__init__(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        raise RuntimeError("no such thing\nat all")


raises = Raises


def no_network() -> int:
    return 3


def fails() -> nn.Module:
    return nn.Linear(torch.zeros(2).view(3), 1)


def of_a_kind(kind: str | None = None, *, sizes: tuple[int, ...] = (16,)) -> nn.Module:
    return nn.Sequential(*(nn.Linear(16, n) for n in sizes), getattr(nn, kind or "Tanh")())


def ends() -> nn.Module:
    raise SystemExit(0)


class Ends(nn.Linear):
    def __init__(self) -> None:
        super().__init__(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        raise SystemExit(0)


ends_later = Ends


def talks() -> nn.Module:
    print("how wide shall it be?")
    return plain()


class TalksAtWork(nn.Linear):
    def __init__(self) -> None:
        super().__init__(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        print("shape", tuple(x.shape))
        return super().forward(x)


def talks_at_work() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 16), nn.Tanh(), TalksAtWork())
