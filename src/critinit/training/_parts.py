"""What a training is put together from: parts of accelerate and timm, as a recipe asks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from critinit.keep import _Multiplied
from critinit.training._packages import package
from critinit.training.errors import TrainingError
from critinit.training.recipe import Recipe

_LEAST_LR, _WARMUP_LR = 1e-5, 1e-6


@contextmanager
def accelerate_state() -> Iterator[None]:
    """Let accelerate forget device and precision afterwards: the next run may have others."""
    state = package("accelerate.state").AcceleratorState
    callers = bool(state._shared_state)
    try:
        yield
    finally:
        if not callers:
            state._reset_state(reset_partial_state=True)


def accelerator(recipe: Recipe, device: str | None) -> Any:
    """accelerate's, on the best device there is or on the CPU."""
    try:
        return package("accelerate").Accelerator(
            mixed_precision=recipe.precision, cpu=device == "cpu"
        )
    except (ValueError, RuntimeError) as error:
        raise TrainingError(
            f"precision={recipe.precision} does not work here: {error}. Set precision=no or bf16."
        ) from error


def synchronized(model: nn.Module, accelerator: Any) -> nn.Module:
    """With BatchNorm over the whole batch, where several GPUs share it."""
    if accelerator.num_processes == 1 or accelerator.device.type != "cuda":
        return model
    if any(isinstance(module, _Multiplied) for module in model.modules()):
        raise TrainingError(
            "multipliers that are kept beside BatchNorm cannot be synchronized among several GPUs. "
            "Use one, or set tuning.keep=fold."
        )
    converted: nn.Module = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    return converted


def outputs(model: nn.Module, classes: int) -> int:
    """Of the last layer; as many as the recipe says, or as there are classes."""
    linear = [m for m in model.modules() if isinstance(m, nn.Linear)]
    return linear[-1].out_features if linear else classes


def optimizer(recipe: Recipe, model: nn.Module) -> torch.optim.Optimizer:
    """Timm's of that name."""
    try:
        made: torch.optim.Optimizer = package("timm.optim").create_optimizer_v2(
            model, recipe.optimizer, recipe.lr, recipe.weight_decay, recipe.momentum
        )
    except (ValueError, AssertionError, RuntimeError) as error:
        raise TrainingError(f"optimizer={recipe.optimizer}: timm says {error}.") from error
    return made


def schedule(recipe: Recipe, descent: torch.optim.Optimizer) -> Any:
    """timm's; the learning rate is a function of the epoch alone, so there is nothing to save."""
    kind = {"step": "multistep", "cosine": "cosine"}[recipe.schedule]
    scheduler, _ = package("timm.scheduler").create_scheduler_v2(
        descent,
        kind,
        num_epochs=recipe.epochs,
        decay_milestones=[epochs + 1 for epochs in recipe.drops],  # timm drops one epoch early
        decay_rate=recipe.drop,
        min_lr=_LEAST_LR if recipe.schedule == "cosine" else 0.0,
        warmup_epochs=recipe.warmup,
        warmup_lr=_WARMUP_LR,
    )
    return scheduler


def board(folder: Path, epoch: int) -> Any:
    """TensorBoard's files; what a killed run wrote about later epochs is not shown."""
    writer = package("torch.utils.tensorboard").SummaryWriter
    return writer(str(folder / "tensorboard"), purge_step=epoch + 1)
