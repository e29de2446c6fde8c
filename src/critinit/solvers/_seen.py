"""What one run of a block shows: its J and K, and the residuals these leave in the loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from critinit.apjn._estimator import standard_error
from critinit.chain._walk import Tensors
from critinit.solvers import _distributed
from critinit.solvers._plain import PlainLayer
from critinit.solvers._problem import (
    Problem,
    check_block_finite,
    jacobian_norms,
    measured_kernel,
)

FEW = 8  # probes that may stand for many, once these were compared with them
_ENOUGH = 4  # probes, to tell their own spread
_EXACT = 0.1  # of the tolerance, for a J that is known exactly


@dataclass(frozen=True)
class Seen:
    """J and K of one block; ``table`` holds what each probe (row) and example adds to J."""

    j: Tensor
    k: Tensor
    residuals: Tensor
    noise: float  # standard error of log J
    band: Tensor  # and what it does to the residuals
    table: Tensor

    @property
    def loss(self) -> float:
        """What the block adds to the loss."""
        return 0.5 * float(self.residuals.square().sum())

    @property
    def largest(self) -> float:
        """The largest residual."""
        return float(self.residuals.abs().max())

    def aim(self, tol: float) -> float:
        """How small a residual shall be: less than ``tol`` where no noise is in the way."""
        return tol if self.noise else _EXACT * tol

    def is_small(self, tol: float) -> bool:
        """Whether the residuals are zero within ``tol`` and two standard errors."""
        return bool((self.residuals.abs() <= self.aim(tol) + 2 * self.band).all())


@dataclass(frozen=True)
class Reference:
    """What many probes said of J, in units of what a few of them said.

    With other multipliers the few are off by nearly the same factor.
    """

    factor: Tensor
    noise: float  # standard error of log J, by all

    @classmethod
    def between(cls, many: Seen, few: Tensor) -> Self:
        """Of two looks at the same run, the second by a table of few probes."""
        j = _distributed.mean(few.mean()).cpu().double()
        return cls(many.j / j if j > 0 else torch.ones(()), many.noise)


@dataclass(frozen=True)
class BlockRun:
    """One run of a block on a batch: it led from ``h``, with kernel ``k``, to ``out``.

    Of a ``plain`` layer J is exact, and probes are of no use.
    """

    problem: Problem
    index: int
    h: Tensors
    k: Tensor
    out: Tensors
    batch_size: int
    plain: PlainLayer | None

    def look(self, probes: Sequence[Tensors], known: Tensor | None = None) -> Seen:
        """J as ``probes`` see it; ``known`` is the table of the first of them, if at hand."""
        if self.plain is not None:
            table = self.plain.norms(self.out, self.h, self.batch_size, graph=False)
            return self._seen(table, torch.zeros(()))
        rest = probes[0 if known is None else len(known) :]
        table = jacobian_norms(self.out, self.h, rest, self.batch_size, graph=False)
        table = table if known is None else torch.cat([known, table])
        return self._seen(table, _distributed.standard_error(_probe_noise(table)))

    def look_by_few(self, probes: Sequence[Tensors], reference: Reference) -> Seen:
        """As many probes would see it, of which these ``probes`` were compared with all before."""
        if self.plain is not None:
            return self.look([])
        table = jacobian_norms(self.out, self.h, probes, self.batch_size, graph=False)
        table = table * reference.factor.to(table)
        return self._seen(table, reference.noise * _distributed.mean(table.mean()))

    def _seen(self, table: Tensor, error: Tensor) -> Seen:
        j = _distributed.mean(table.mean()).cpu().double()
        k_next = measured_kernel(self.out)
        check_block_finite(self.problem, self.index, j, k_next)
        residuals = self.problem.block_residuals(j, self.k, k_next)
        noise = float(error.cpu() / j) if j > 0 else 0.0
        band = self.problem.block_residuals(j * (1 + noise), self.k, k_next) - residuals
        return Seen(j, k_next, residuals, noise, band.abs().nan_to_num(), table)

    def differentiable_j(self, probes: Sequence[Tensors]) -> Tensor:
        """J with its graph: exact, or by the first probe, which tells the direction."""
        if self.plain is not None:
            return self.plain.norms(self.out, self.h, self.batch_size, graph=True).mean()
        return jacobian_norms(self.out, self.h, probes[:1], self.batch_size, graph=True).mean()


def _probe_noise(table: Tensor) -> Tensor:
    """The standard error that comes of the probes alone, where there are enough to tell.

    The spread over examples is an upper estimate: it holds that of the true J, too.
    """
    by_examples = standard_error(table)
    if len(table) < _ENOUGH:
        return by_examples
    return torch.fmin(by_examples, standard_error(table.mean(1, keepdim=True)))


def chained(
    problem: Problem,
    k: Tensor,
    seen: Seen,
    by_j: Callable[[], Tensor],
    by_k: Callable[[], Tensor],
    by_k_before: Callable[[], Tensor] | None = None,
) -> Tensor:
    """The derivative of a block's residuals, from those of J and of the K behind and before it.

    Each is computed only if some residual depends on it.
    """
    at = [x.clone().requires_grad_() for x in (seen.j, seen.k, k)]
    residuals = problem.block_residuals(at[0], at[2], at[1])
    outer = [torch.autograd.grad(r, at, retain_graph=True, allow_unused=True) for r in residuals]
    parts = []
    for inner, factors in zip((by_j, by_k, by_k_before), zip(*outer, strict=True), strict=True):
        if inner is not None and any(factor is not None for factor in factors):
            along = inner()
            parts.append(torch.stack([0 * along if f is None else f * along for f in factors]))
    return torch.stack(parts).sum(0)
