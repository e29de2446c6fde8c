"""Cost in units of one forward and backward pass: process time, one thread, median."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from critinit.chain._inputs import first_tensor


def seconds(run: Callable[[], object], repeats: int = 5) -> float:
    """Median process time of ``run``, after one run to warm up if there are several."""
    if repeats > 1:
        run()
    times = []
    for _ in range(repeats):
        gc.collect()
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return statistics.median(times)


def rounds(
    jobs: Sequence[Callable[[], object]], repeats: int, warm_up: bool = True
) -> list[list[float]]:
    """Process times of all jobs in turn, so many times.

    What slows a shared machine down for a while then weighs on one job as much as on the rest.
    """
    for job in jobs if warm_up else ():
        job()
    return [[seconds(job, repeats=1) for job in jobs] for _ in range(repeats)]


def ratios(
    unit: Callable[[], object], runs: Sequence[Callable[[], object]], repeats: int = 5
) -> list[float]:
    """The process time of each run over that of ``unit``: median of rounds of all in turn."""
    times = rounds([unit, *runs], repeats)
    return [statistics.median(t[i] / t[0] for t in times) for i in range(1, len(runs) + 1)]


def forward_backward(model: nn.Module, x: Tensor) -> None:
    """What one training step computes, without the optimizer."""
    first_tensor(model(x)).float().square().mean().backward()
    model.zero_grad(set_to_none=True)


def forward_and_input_backward(model: nn.Module, x: Tensor, probes: int = 1) -> None:
    """The least that any measurement needs: a backward pass a probe, no weight gradients."""
    asked = [p.requires_grad for p in model.parameters()]
    for p in model.parameters():
        p.requires_grad_(False)
    leaf = x.clone().requires_grad_()
    out = first_tensor(model(leaf))
    for left in reversed(range(probes)):
        torch.autograd.grad(out, leaf, torch.randn_like(out), retain_graph=left > 0)
    for p, was in zip(model.parameters(), asked, strict=True):
        p.requires_grad_(was)
