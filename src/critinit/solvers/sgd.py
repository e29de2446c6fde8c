"""Algorithm 1: gradient descent on the multipliers, through the whole chain."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from torch import Tensor

from critinit.chain._inputs import Batch
from critinit.chain._tape import Tape
from critinit.chain._walk import Tensors
from critinit.losses import JLL, JSL
from critinit.solvers import _distributed
from critinit.solvers._problem import (
    Problem,
    Solution,
    Step,
    TuningError,
    check_block_finite,
    check_loss_finite,
    jacobian_norms,
    kernel,
    plain,
    second_derivatives,
    twice_differentiable,
)
from critinit.solvers._rates import bound, one_step

Rate = float | Literal["bound", "one-step"]
Optimizer = Callable[[list[Tensor]], torch.optim.Optimizer]
_SAFETY = 0.9  # of the bound, which is sharp


@dataclass(frozen=True)
class SGD:
    """``a(t+1) = a(t) − η ∇_a L(t)`` with θ frozen, until ``L ≤ eps`` or ``steps`` are done.

    Each step takes the next batch and fresh probes.

    Args:
        lr: The learning rate η. ``"bound"`` takes at each step 0.9 of the largest that eq. eta_t
            allows at the measured J(t), ``"one-step"`` for each block that of eq. 1step_lr. Both
            are made for ReLU and linear networks with JLL or JSL.
        steps: T.
        eps: ε.
        momentum: Of the descent; 0 in the paper.
        optimizer: Another rule instead, made from the list of multipliers:
            ``lambda a: torch.optim.Adam(a, lr=0.01)``.
    """

    lr: Rate = 0.03
    steps: int = 500
    eps: float = 1e-4
    momentum: float = 0.0
    optimizer: Optimizer | None = None

    def __post_init__(self) -> None:
        rate = self.lr in get_args(get_args(Rate)[1]) if isinstance(self.lr, str) else self.lr > 0
        if not rate or self.steps < 0 or not 0 <= self.momentum < 1:
            raise TuningError(
                f"{self!r}: lr is a number above 0, 'bound' or 'one-step'; steps a whole number "
                "from 0 up; momentum from 0 to below 1."
            )

    def solve(self, problem: Problem) -> Solution:
        """Run Algorithm 1, with the Gaussian probes of the paper."""
        problem = replace(problem, probes=replace(problem.probes, noise="gaussian"))
        a = {name: torch.ones((), requires_grad=True) for name in problem.twin.parameters}
        descent = self._descent(list(a.values()))
        history: list[Step] = []
        batches = itertools.chain.from_iterable(problem.batches() for _ in itertools.count())
        while True:
            problem.report(len(history), self.steps)
            loss, j, k = differentiate(problem, a, next(batches))
            check_loss_finite(loss, j, k)
            history.append(Step(loss, j.tolist(), k.tolist()))
            if loss <= self.eps or len(history) > self.steps:
                break
            self._set_rates(descent, problem, a, j)
            descent.step()
        converged = loss <= self.eps
        where = "at" if converged else "above"
        message = (
            f"loss {loss:.3g} after {len(history) - 1} steps, {where} the aim of {self.eps:.3g}"
        )
        return Solution(plain(a), history, converged, message)

    def _descent(self, a: list[Tensor]) -> torch.optim.Optimizer:
        if self.optimizer is not None:
            return self.optimizer(a)
        lr = 0.0 if isinstance(self.lr, str) else self.lr
        return torch.optim.SGD([{"params": [p]} for p in a], lr, self.momentum)

    def _set_rates(
        self, descent: torch.optim.Optimizer, problem: Problem, a: Mapping[str, Tensor], j: Tensor
    ) -> None:
        """The scheduled rates, from J as it is now."""
        if self.optimizer is not None or not isinstance(self.lr, str):
            return
        if not isinstance(problem.loss, JLL | JSL):
            raise TuningError(
                f"lr={self.lr!r} is known for the losses JLL and JSL only, not for "
                f"{problem.loss!r}. Give a number, or use the Sweep."
            )
        counted = problem.counted()
        blocks = problem.chain.blocks
        weights = {
            i: next(n for n, p in block.parameters.items() if p.ndim >= 2 and n in a)
            for i, block in enumerate(blocks)
            if counted[i] and any(p.ndim >= 2 and n in a for n, p in block.parameters.items())
        }
        at = list(weights)
        multipliers = torch.stack([a[weights[i]].detach() for i in at])
        rates = one_step(problem.loss, j[at], multipliers)
        common = _SAFETY * bound(problem.loss, j[at], multipliers)
        rate_of = dict.fromkeys(a, 0.0 if self.lr == "one-step" else float(common))
        if self.lr == "one-step":
            for i, rate in zip(at, rates.tolist(), strict=True):
                rate_of |= dict.fromkeys(blocks[i].parameters.keys() & a.keys(), rate)
        for part, name in zip(descent.param_groups, a, strict=True):
            part["lr"] = rate_of[name]


def differentiate(
    problem: Problem, a: Mapping[str, Tensor], batch: Batch
) -> tuple[float, Tensor, Tensor]:
    """The loss, J and K at multipliers ``a``, whose ``.grad`` is set.

    Over several processes J, K and the gradients are averaged: the loss is a function of the mean
    J and K, so its gradient is the mean of the gradients of those.
    """
    graph = _FullGraph(problem, batch.size)
    with problem.twin.applied(a), twice_differentiable():
        problem.chain.walk(batch, graph)
        j, k = torch.stack(graph.j).cpu(), torch.stack(graph.k).cpu()
        mean_j = _distributed.mean(j.detach()).requires_grad_()
        mean_k = _distributed.mean(k.detach()).requires_grad_()
        for i, (j_i, k_i) in enumerate(zip(mean_j.detach(), mean_k.detach()[1:], strict=True)):
            check_block_finite(problem, i, j_i, k_i)
        loss = problem.objective(mean_j, mean_k)
        by_j, by_k = torch.autograd.grad(loss, [mean_j, mean_k], allow_unused=True)
        outer = [(x, g) for x, g in ((j, by_j), (k, by_k)) if g is not None and x.requires_grad]
        with second_derivatives():
            found = torch.autograd.grad(
                [x for x, _ in outer], list(a.values()), [g for _, g in outer], allow_unused=True
            )
    for multiplier, gradient in zip(a.values(), found, strict=True):
        multiplier.grad = _distributed.mean(
            torch.zeros_like(multiplier) if gradient is None else gradient
        )
    return float(loss.detach()), mean_j.detach(), mean_k.detach()


class _FullGraph:
    """An observer that keeps the graph of the whole chain."""

    def __init__(self, problem: Problem, batch_size: int) -> None:
        self.problem = problem
        self.batch_size = batch_size
        self.counted = problem.counted()
        self.j: list[Tensor] = []
        self.k: list[Tensor] = []

    def enter(self, h: Tensors) -> Tensors:
        if not self.k:
            h = tuple(t.detach().requires_grad_() for t in h)
            self.k.append(kernel(h))
        return h

    def leave(self, index: int, h: Tensors, out: Tensors, tape: Tape | None) -> Tensors:
        probes = self.problem.probes
        vs = [probes.like(out) for _ in range(probes.count)]
        table = jacobian_norms(out, h, vs, self.batch_size, bool(self.counted[index]))
        self.j.append(table.mean())
        self.k.append(kernel(out))
        return out
