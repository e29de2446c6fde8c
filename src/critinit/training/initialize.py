"""The network of a recipe, built and initialized."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from critinit import baselines, models
from critinit.losses import JKL
from critinit.models._options import suggestion
from critinit.result import Result
from critinit.solvers import SGD, Sweep
from critinit.training.errors import TrainingError
from critinit.training.images import Images, TuningBatches
from critinit.training.order import seed_of
from critinit.training.recipe import Recipe
from critinit.tuning import tune_

AUTOINIT = "autoinit"


def build(recipe: Recipe, classes: int, seed: int) -> nn.Module:
    """The network as its own code makes it."""
    entry = models.find(recipe.model)
    fitting = entry.fitting((3, recipe.image, recipe.image))
    asked = fitting | {"outputs": classes} | dict(recipe.options)
    if asked["outputs"] < classes:
        raise TrainingError(
            f"{recipe.name} has {asked['outputs']} outputs, and {recipe.data} {classes} classes."
        )
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        return entry.build(**asked)


def names() -> list[str]:
    """The initializations to choose from."""
    return baselines.names()


def check(init: str) -> None:
    """Refuse a name that is none, before anything is computed."""
    if init not in names():
        raise TrainingError(f"there is no initialization {init!r}. {suggestion(init, names())}")


def initialize(
    model: nn.Module,
    recipe: Recipe,
    images: Images,
    init: str,
    seed: int,
    device: torch.device,
    progress: Callable[[int, int], None] | None = None,
) -> Result | None:
    """Initialize ``model`` on ``device``; ``"autoinit"`` as the recipe's tuning says.

    It depends on the seed only, so every process that does it gets the same.
    """
    tuning = recipe.tuning
    generator = torch.Generator().manual_seed(seed_of(seed))
    model.to(device).train()
    if init != AUTOINIT:
        batches = TuningBatches(images, recipe, tuning.batch, 1, seed)
        baselines.find(init)(model, next(iter(batches)).to(device), generator)
        return None
    sgd = tuning.solver == "sgd"
    solver: Any = SGD(tuning.eta, tuning.steps) if sgd else Sweep()
    steps = tuning.steps + 1 if sgd else 2  # and one to judge by
    batches = TuningBatches(images, recipe, tuning.batch, steps, seed)
    return tune_(
        model,
        _On(batches, device),
        JKL(tuning.lam),
        solver,
        scale=nn.BatchNorm2d if tuning.scale == "batchnorm" else None,
        keep=tuning.keep,
        probes=tuning.probes,
        base="kaiming",
        bias_std=tuning.bias_std,
        generator=generator,
        progress=progress,
    )


class _On:
    """Batches on a device."""

    def __init__(self, batches: TuningBatches, device: torch.device) -> None:
        self.batches = batches
        self.device = device

    def __iter__(self) -> Any:
        return (batch.to(self.device) for batch in self.batches)
