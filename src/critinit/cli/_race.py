"""Networks trained on the same batches, each at every learning rate of one grid."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from critinit.data import Dataset

_BATCH = 64
_LOOK = 20  # steps between two looks at the accuracy
_HELD_BACK = 300  # training images that choose the learning rate


@dataclass
class Runner:
    """One network at one learning rate, and how it fares.

    Attributes:
        steps: When it was looked at.
        losses: The training loss, as the mean over the steps between two looks.
        accuracies: On the images that were held back.
    """

    name: str
    rate: float
    model: nn.Module
    steps: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)

    @property
    def accuracy(self) -> float:
        """The last one; it is what chooses the rate."""
        return self.accuracies[-1] if self.accuracies else 0.0


def race(
    networks: Mapping[str, nn.Module],
    rates: Sequence[float],
    images: Dataset,
    steps: int,
    seed: int,
    watch: Callable[[Sequence[Runner]], None],
) -> list[Runner]:
    """Train a copy of every network at every rate, by SGD with momentum 0.9, side by side."""
    runners = [Runner(n, r, copy.deepcopy(m)) for r in rates for n, m in networks.items()]
    for rate in rates:
        lane = [runner for runner in runners if runner.rate == rate]
        _run_lane(lane, images, steps, seed, lambda: watch(runners))
    return runners


def _run_lane(
    lane: Sequence[Runner], images: Dataset, steps: int, seed: int, watch: Callable[[], None]
) -> None:
    x, y = images.normalized(), images.labels
    assert y is not None
    optimizers = [torch.optim.SGD(r.model.parameters(), r.rate, momentum=0.9) for r in lane]
    draws = torch.Generator().manual_seed(seed)  # the same batches in every lane
    recent: list[list[float]] = [[] for _ in lane]
    for step in range(1, steps + 1):
        index = torch.randint(len(y) - _HELD_BACK, (_BATCH,), generator=draws)
        for runner, optimizer, losses in zip(lane, optimizers, recent, strict=True):
            losses.append(_step(runner.model, optimizer, x[index], y[index]))
        if step % _LOOK and step < steps:
            continue
        for runner, losses in zip(lane, recent, strict=True):
            runner.steps.append(step)
            runner.losses.append(sum(losses) / len(losses))
            runner.accuracies.append(accuracy(runner.model, x[-_HELD_BACK:], y[-_HELD_BACK:]))
            losses.clear()
        watch()


def best(runners: Sequence[Runner], name: str) -> Runner:
    """Of one network's runs that which does best on the images held back."""
    return max((r for r in runners if r.name == name), key=lambda r: r.accuracy)


@torch.no_grad()
def accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    """The part of the images that the network names rightly."""
    return float((model(x).argmax(1) == y).float().mean())


def _step(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor) -> float:
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return float(loss.detach())
