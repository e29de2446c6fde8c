"""One short training on CIFAR-10: initialize, train, and test, all of it from one seed."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass
from functools import cache

import torch
import torch.nn.functional as F
from methods import METHODS
from networks import NETWORKS
from torch import Tensor, nn

import critinit
from critinit import data

BATCH = 128
HELD_OUT = 5000  # of the training images, to choose the learning rate by


@dataclass(frozen=True)
class Trial:
    """What is run."""

    network: str
    method: str
    lr: float
    steps: int
    seed: int


@dataclass(frozen=True)
class Outcome:
    """What came out.

    ``stopped`` is the step whose loss was not finite; such a network counts as guessing. ``worst``
    is the largest |log J| after initialization, ``kernel`` the mean square of the logits then.
    """

    train_loss: float
    validation: float
    test: float
    stopped: int | None
    worst: float
    kernel: float
    init_seconds: float
    seconds: float


@dataclass(frozen=True)
class Images:
    """Normalized CIFAR-10: to train on, to choose by, to test on."""

    train: tuple[Tensor, Tensor]
    validation: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]


@cache
def cifar10() -> Images:
    """The last of the training images are held out."""
    parts = [data.load("cifar10", split) for split in ("train", "test")]
    (x, y), (x_test, y_test) = ((part.normalized(), part.labels) for part in parts)
    assert y is not None
    assert y_test is not None
    kept = len(x) - HELD_OUT
    return Images((x[:kept], y[:kept]), (x[kept:], y[kept:]), (x_test, y_test))


def run(trial: Trial) -> dict[str, object]:
    """A row of the table."""
    started = time.perf_counter()
    images = cifar10()
    x, y = images.train
    order = torch.Generator().manual_seed(trial.seed)
    torch.manual_seed(trial.seed)
    model = NETWORKS[trial.network]()
    first = x[torch.randperm(len(x), generator=order)[:BATCH]]
    METHODS[trial.method](model, first, torch.Generator().manual_seed(trial.seed))
    init_seconds = time.perf_counter() - started
    worst, kernel = _criticality(model, first)
    loss, stopped = _train(model, x, y, trial, order)
    accuracies = [
        0.1 if stopped is not None else _accuracy(model, *split)
        for split in (images.validation, images.test)
    ]
    seconds = time.perf_counter() - started
    outcome = Outcome(loss, *accuracies, stopped, worst, kernel, init_seconds, seconds)
    return asdict(trial) | asdict(outcome)


def _criticality(model: nn.Module, x: Tensor) -> tuple[float, float]:
    try:
        profile = critinit.measure(model, x)
    except critinit.NotFiniteError:
        return math.nan, math.nan
    return float(profile.log_apjn.abs().max()), float(profile.kernel[-1])


def _train(
    model: nn.Module, x: Tensor, y: Tensor, trial: Trial, order: torch.Generator
) -> tuple[float, int | None]:
    """SGD with momentum 0.9 and a cosine schedule; the loss is the mean of the last ten steps."""
    optimizer = torch.optim.SGD(model.parameters(), trial.lr, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, trial.steps)
    losses: list[float] = []
    for step in range(trial.steps):
        batch = torch.randint(len(x), (BATCH,), generator=order)
        loss = F.cross_entropy(model(x[batch]), y[batch])
        if not bool(torch.isfinite(loss)):
            return math.nan, step
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(float(loss.detach()))
    return sum(losses[-10:]) / 10, None


@torch.no_grad()
def _accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    model.eval()
    right = sum(
        int((model(images).argmax(1) == labels).sum())
        for images, labels in zip(x.split(500), y.split(500), strict=True)
    )
    return right / len(x)
