"""Steps in ``s = log a``, and the derivatives they are taken from."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from critinit.solvers import _distributed
from critinit.solvers._problem import second_derivatives

_LONGEST_STEP = 6.0


def along_logs(value: Tensor, tensors: dict[str, Tensor]) -> Tensor:
    """``∂value/∂s`` where each of ``tensors`` is multiplied by ``exp(s)``."""
    leaves = list(tensors.values())
    if not (value.requires_grad and leaves):
        return torch.zeros(len(leaves), dtype=torch.float64)
    with second_derivatives():
        found = torch.autograd.grad(value, leaves, retain_graph=True, allow_unused=True)
    row = [
        torch.zeros((), dtype=torch.float64) if g is None else (g * x).sum().detach().double().cpu()
        for g, x in zip(found, leaves, strict=True)
    ]
    return _distributed.mean(torch.stack(row))


def damped_step(derivative: Tensor, residuals: Tensor, damping: float) -> Tensor:
    """Levenberg's: the shorter, the less it would help. Without damping the one of least norm."""
    d = derivative.double().numpy()
    square = d @ d.T + damping * np.eye(len(d))
    step = -d.T @ np.linalg.solve(square, residuals.double().numpy())
    return limited(torch.from_numpy(step).to(residuals))


def secant(derivative: Tensor, taken: Tensor, gained: Tensor) -> Tensor:
    """Broyden's update: the derivative that explains the last step."""
    error = gained - derivative @ taken
    return derivative + torch.outer(error, taken) / taken.square().sum()


def limited(step: Tensor) -> Tensor:
    """No multiplier changes by more than a factor exp(6)."""
    longest = float(step.abs().max())
    return step * min(1.0, _LONGEST_STEP / longest) if longest > 0 else step
