"""The equation of one block: multipliers at which its residuals vanish, its input being given."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from critinit.apjn._estimator import standard_error
from critinit.chain._tape import Tape
from critinit.chain._walk import Tensors
from critinit.solvers import _distributed
from critinit.solvers._problem import (
    Problem,
    chained,
    check_block_finite,
    jacobian_norms,
    kernel,
)
from critinit.twin import Products

_ENOUGH = 4  # probes, to tell their own spread
_LONGEST_STEP = 6.0  # in log a
_BY_DEGREES = (0.15, 0.9)  # the ratio of residuals by which a step is repeated
_DAMPING = 1e-2  # of steps in log a, against squared residuals
_UNSEEN = torch.empty(0)


@dataclass(frozen=True)
class Accuracy:
    """How near to zero the residuals shall come, and at what cost."""

    tol: float
    max_evals: int
    max_probes: int


@dataclass(frozen=True)
class Point:
    """The block at multipliers ``a = exp(s)``: what came out, and what some probes say of it."""

    a: dict[str, Tensor]
    out: Tensors
    j: Tensor = _UNSEEN
    k: Tensor = _UNSEEN
    residuals: Tensor = _UNSEEN
    noise: float = math.nan  # standard error of log J
    band: Tensor = _UNSEEN  # and what it does to the residuals

    @property
    def s(self) -> Tensor:
        return torch.stack([a.detach().log().cpu() for a in self.a.values()])

    @property
    def loss(self) -> float:
        """What the block adds to the loss."""
        return 0.5 * float(self.residuals.square().sum())

    @property
    def largest(self) -> float:
        """The largest residual."""
        return float(self.residuals.abs().max())


class Equation:
    """Gauss–Newton in ``s = log a``, by damped steps of least norm.

    The same probes are used until they find the block solved, and fresh ones to confirm it. The
    derivative is taken once and kept up to date by secants, as long as that makes progress. Where
    a block has a single weight, J goes with the square of its multiplier if the weight acts last
    (or the block is homogeneous): that is the first guess, and no derivative is taken at all.
    """

    def __init__(
        self,
        problem: Problem,
        accuracy: Accuracy,
        index: int,
        names: Sequence[str],
        products: Products,
        h: Tensors,
        tape: Tape,
        batch_size: int,
    ) -> None:
        self.problem = problem
        self.accuracy = accuracy
        self.index = index
        self.names = list(names)
        self.products = products
        self.h = h
        self.k = _distributed.mean(kernel(h).detach()).cpu()
        self.tape = tape
        self.batch_size = batch_size
        self.probes: list[Tensors] = []
        self.evaluations = 0

    def solve(self, a: dict[str, Tensor], out: Tensors) -> tuple[Point, bool]:
        """The best point, and whether its residuals are within tolerance.

        Starts from ``out``, the block's output at ``a``.
        """
        point = self._first(a, out)
        if self._is_small(point):
            return point, True
        derivative = self._derivative(point, self._degrees())
        while self._may_run():
            step = damped_step(derivative, point.residuals, _DAMPING)
            if float((derivative @ step).abs().max()) <= self.accuracy.tol / 2:
                break  # nothing that the multipliers could still change
            new, confirmed = self._advanced(point, derivative)
            if confirmed:
                return new, True
            if new is point:
                break
            slow = new.largest > 0.5 * point.largest
            derivative = (
                self._derivative(new)
                if slow
                else _secant(derivative, new.s - point.s, new.residuals - point.residuals)
            )
            point = new
        return point, self._is_small(self._by_fresh_probes(point))

    def _first(self, a: dict[str, Tensor], out: Tensors) -> Point:
        count = self.problem.probes.count
        self.probes = [self.problem.probes.like(out) for _ in range(count)]
        point, table = self._seen_by(self.probes, Point(a, out))
        missing = self._probes_needed(point.noise) - count
        if missing > 0:
            self.probes += [self.problem.probes.like(out) for _ in range(missing)]
            point, _ = self._seen_by(self.probes, point, table)
        return point

    def _advanced(self, point: Point, derivative: Tensor) -> tuple[Point, bool]:
        """Take a step that helps, and once more of it where residuals come down by degrees.

        A residual block comes near J = 1 only as its branch vanishes: its residual falls like an
        exponential of ``log a``, of which a Newton step removes a factor e.
        """
        damping = _DAMPING
        new, confirmed = self._run(point.s + damped_step(derivative, point.residuals, damping))
        while not (confirmed or new.loss < point.loss):
            if not self._may_run():
                return point, False
            damping *= 16
            new, confirmed = self._run(point.s + damped_step(derivative, point.residuals, damping))
        ratio = new.largest / point.largest
        if confirmed or not _BY_DEGREES[0] < ratio < _BY_DEGREES[1] or not self._may_run():
            return new, confirmed
        steps = math.log(self.accuracy.tol / new.largest) / math.log(ratio)
        further, confirmed = self._run(new.s + _limited(steps * (new.s - point.s)))
        return (further, confirmed) if confirmed or further.loss < new.loss else (new, False)

    def _may_run(self) -> bool:
        return self.evaluations < self.accuracy.max_evals

    def _is_small(self, point: Point) -> bool:
        return bool((point.residuals.abs() <= self.accuracy.tol + 2 * point.band).all())

    def _run(self, s: Tensor) -> tuple[Point, bool]:
        """Run the block at ``a = exp(s)``, and say whether fresh probes find it solved.

        If not, it comes as the old probes see it, to be compared with what they saw before.
        """
        self.evaluations += 1
        a = {n: x.exp().requires_grad_() for n, x in zip(self.names, s, strict=True)}
        self.products.use(a)
        point = self._by_fresh_probes(Point(a, self.tape.replay(self.h, self.products.of)))
        if self._is_small(point):
            return point, True
        return self._seen_by(self.probes, point)[0], False

    def _by_fresh_probes(self, point: Point) -> Point:
        fresh = [self.problem.probes.like(point.out) for _ in self.probes]
        return self._seen_by(fresh, point)[0]

    def _seen_by(
        self, probes: Sequence[Tensors], point: Point, known: Tensor | None = None
    ) -> tuple[Point, Tensor]:
        """The same point, as other probes see it; what the first ones saw may be known already."""
        rest = probes[0 if known is None else len(known) :]
        table = jacobian_norms(point.out, self.h, rest, self.batch_size, graph=False)
        if known is not None:
            table = torch.cat([known, table])
        j = _distributed.mean(table.mean()).cpu()
        k = _distributed.mean(kernel(point.out).detach()).cpu()
        check_block_finite(self.problem, self.index, j, k)
        residuals = self.problem.block_residuals(j, self.k, k)
        noise = float(_distributed.standard_error(_probe_noise(table)).cpu() / j) if j > 0 else 0.0
        band = (self.problem.block_residuals(j * (1 + noise), self.k, k) - residuals).abs()
        seen = replace(point, j=j, k=k, residuals=residuals, noise=noise, band=band.nan_to_num())
        return seen, table

    def _probes_needed(self, noise: float) -> int:
        """So many that the standard error of log J is below half the tolerance."""
        if math.isnan(noise):  # a single example and a single probe do not tell
            return min(_ENOUGH, self.accuracy.max_probes)
        wanted = len(self.probes) * (2 * noise / self.accuracy.tol) ** 2
        return min(math.ceil(wanted), self.accuracy.max_probes)

    def _derivative(self, point: Point, degrees: Tensor | None = None) -> Tensor:
        """``∂r/∂s``, a row for each residual, by way of J and K.

        ``degrees`` are those of J in the multipliers, where they are known.
        """

        def by_j() -> Tensor:
            if degrees is not None:
                return degrees * point.j
            # one probe tells the direction; how far to go, all of them do
            table = jacobian_norms(point.out, self.h, self.probes[:1], self.batch_size, graph=True)
            first = _distributed.mean(table.detach().mean()).cpu()
            return self._by_log(table.mean(), point.a) * point.j / first

        def by_k() -> Tensor:
            return self._by_log(kernel(point.out), point.a)

        return chained(self.problem, point.j, self.k, point.k, by_j, by_k)

    def _degrees(self) -> Tensor | None:
        """Those of J, as far as can be guessed: two for the only weight, and none for its bias."""
        ranks = [self.problem.twin.parameters[name].ndim for name in self.names]
        owners = {name.rpartition(".")[0] for name in self.names}
        if len(ranks) == 1:
            return torch.tensor([2.0])
        if len(owners) == 1 and len(ranks) == 2 and min(ranks) == 1 < max(ranks):
            return torch.tensor([2.0 if rank > 1 else 0.0 for rank in ranks])
        return None

    def _by_log(self, value: Tensor, a: dict[str, Tensor]) -> Tensor:
        leaves = list(a.values())
        if not value.requires_grad:
            return torch.zeros(len(leaves))
        found = torch.autograd.grad(value, leaves, retain_graph=True, allow_unused=True)
        row = [
            torch.zeros(()) if g is None else (g * x).detach().cpu()
            for g, x in zip(found, leaves, strict=True)
        ]
        return _distributed.mean(torch.stack(row))


def _probe_noise(table: Tensor) -> Tensor:
    """The standard error that comes of the probes alone, where there are enough to tell.

    The spread over examples is an upper estimate: it holds that of the true J, too.
    """
    by_examples = standard_error(table)
    if len(table) < _ENOUGH:
        return by_examples
    return torch.fmin(by_examples, standard_error(table.mean(1, keepdim=True)))


def _secant(derivative: Tensor, taken: Tensor, gained: Tensor) -> Tensor:
    """Broyden's update: the derivative that explains the last step."""
    error = gained - derivative @ taken
    return derivative + torch.outer(error, taken) / taken.square().sum()


def damped_step(derivative: Tensor, residuals: Tensor, damping: float) -> Tensor:
    """Levenberg's: the shorter, the less it would help. Without damping the one of least norm."""
    d = derivative.double().numpy()
    square = d @ d.T + damping * np.eye(len(d))
    step = -d.T @ np.linalg.solve(square, residuals.double().numpy())
    return _limited(torch.from_numpy(step).to(residuals))


def _limited(step: Tensor) -> Tensor:
    longest = float(step.abs().max())
    return step * min(1.0, _LONGEST_STEP / longest) if longest > 0 else step
