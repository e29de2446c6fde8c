"""The equation of one block: multipliers at which its residuals vanish, its input being given."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from critinit.chain._tape import Tape
from critinit.chain._walk import Tensors
from critinit.solvers import _distributed
from critinit.solvers._closed import ClosedForm
from critinit.solvers._plain import PlainLayer
from critinit.solvers._problem import NotTwiceDifferentiableError, Problem, kernel, measured_kernel
from critinit.solvers._seen import FEW, BlockRun, Reference, Seen, chained
from critinit.solvers._step import along_logs, damped_step, limited, secant
from critinit.twin import Products

_BY_DEGREES = (0.15, 0.9)  # the ratio of residuals by which a step is repeated
_DAMPING = 3e-3  # of steps in log a, against squared residuals
_APART = 0.1  # in log a, for a derivative by differences
_EXACT_ENOUGH = 0.01  # of the tolerance, where trials cost nothing
_EASIER, _HARDER = 4.0, 16.0  # by how much it falls after a step that helps, and grows else


@dataclass(frozen=True)
class Accuracy:
    """How near to zero the residuals shall come, and at what cost."""

    tol: float
    max_evals: int
    max_probes: int

    def probes_needed(self, seen: Seen) -> int:
        """So many that the standard error of log J is below half the tolerance."""
        if math.isnan(seen.noise):  # a single example and a single probe do not tell
            return min(_SOME, self.max_probes)
        wanted = len(seen.table) * (2 * seen.noise / self.tol) ** 2
        return max(len(seen.table), min(math.ceil(wanted), self.max_probes))


_SOME = 4


@dataclass(frozen=True)
class Point:
    """The block run at multipliers ``a = exp(s)``, and what some probes say of it."""

    a: dict[str, Tensor]
    out: Tensors
    seen: Seen

    @property
    def s(self) -> Tensor:
        return torch.stack([a.detach().double().log().cpu() for a in self.a.values()])


class Equation:
    """Gauss–Newton in ``s = log a``, by damped steps of least norm.

    The same probes are used until they find the block solved, or a few of them where there are
    many, and as many fresh ones to confirm it. The derivative is taken once and kept up to date by
    secants, as long as that makes progress. Where a block has a single weight, J goes with the
    square of its multiplier if the weight acts last (or the block is homogeneous): that is the
    first guess, and no derivative is taken at all.
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
        self.k = measured_kernel(h)
        self.tape = tape
        self.batch_size = batch_size
        self.plain: PlainLayer | None = None
        self.probes: list[Tensors] = []
        self.reference: Reference | None = None
        self.evaluations = 0

    def solve(self, a: dict[str, Tensor], out: Tensors) -> tuple[Point, bool]:
        """The best point, and whether its residuals are within tolerance.

        Starts from ``out``, the block's output at ``a``.
        """
        point = self._first(a, out)
        if self._is_solved(point.seen):
            return point, True
        if (closed := ClosedForm.found(self._block_run(out), point.seen, self.names)) is not None:
            s = closed.minimized(_EXACT_ENOUGH * self.accuracy.tol)
            out, seen = closed.at(s)
            a = {n: x * y.exp().float() for (n, x), y in zip(a.items(), s, strict=True)}
            return Point(a, out, seen), self._is_solved(seen)
        derivative = self._derivative_or_secant(point, self._degrees())
        damping = _DAMPING
        while self._may_run():
            step = damped_step(derivative, point.seen.residuals, damping)
            if float((derivative @ step).abs().max()) <= point.seen.aim(self.accuracy.tol) / 2:
                break  # nothing that the multipliers could still change
            new, confirmed, damping = self._advanced(point, derivative, damping)
            if confirmed:
                return new, True
            if new is point:
                break
            if new.seen.largest > 0.5 * point.seen.largest:
                derivative = self._derivative_or_secant(new)
            else:
                gained = new.seen.residuals - point.seen.residuals
                derivative = secant(derivative, new.s - point.s, gained)
            point = new
        seen = self._confirmed(point.out)
        return replace(point, seen=seen), self._is_solved(seen)

    def _first(self, a: dict[str, Tensor], out: Tensors) -> Point:
        self.plain = PlainLayer.found(out, self.h)
        if self.plain is not None:
            return Point(a, out, self._block_run(out).look([]))
        self.probes = self._draw(self.problem.probes.count, out)
        seen = self._block_run(out).look(self.probes)
        missing = self.accuracy.probes_needed(seen) - len(self.probes)
        if missing > 0:
            self.probes += self._draw(missing, out)
            seen = self._block_run(out).look(self.probes, seen.table)
        self._compare(seen)
        return Point(a, out, seen)

    def _compare(self, seen: Seen) -> None:
        """A few probes with all, which ``seen`` is by."""
        if len(self.probes) > FEW:
            self.reference = Reference.between(seen, seen.table[:FEW])

    def _draw(self, count: int, out: Tensors) -> list[Tensors]:
        return [self.problem.probes.like(out) for _ in range(count)]

    def _advanced(
        self, point: Point, derivative: Tensor, damping: float
    ) -> tuple[Point, bool, float]:
        """Take a step that helps, and once more of it where residuals come down by degrees.

        A residual block comes near J = 1 only as its branch vanishes: its residual falls like an
        exponential of ``log a``, of which a Newton step removes a factor e. With the point comes
        the damping of the next step, which is less than what this one needed.
        """
        residuals = point.seen.residuals
        new, confirmed = self._run(point.s + damped_step(derivative, residuals, damping))
        while not (confirmed or new.seen.loss < point.seen.loss):
            if not self._may_run():
                return point, False, damping
            damping *= _HARDER
            new, confirmed = self._run(point.s + damped_step(derivative, residuals, damping))
        damping /= _EASIER
        ratio = new.seen.largest / point.seen.largest
        if confirmed or not _BY_DEGREES[0] < ratio < _BY_DEGREES[1] or not self._may_run():
            return new, confirmed, damping
        steps = math.log(self.accuracy.tol / new.seen.largest) / math.log(ratio)
        further, confirmed = self._run(new.s + limited(steps * (new.s - point.s)))
        if confirmed or further.seen.loss < new.seen.loss:
            return further, confirmed, damping
        return new, False, damping

    def _may_run(self) -> bool:
        return self.evaluations < self.accuracy.max_evals

    def _is_solved(self, seen: Seen) -> bool:
        return seen.is_small(self.accuracy.tol)

    def _run(self, s: Tensor) -> tuple[Point, bool]:
        """Run the block at ``a = exp(s)``, and say whether fresh probes find it solved.

        If not, it comes as the old probes see it, to be compared with what they saw before.
        """
        self.evaluations += 1
        a = {n: x.exp().float().requires_grad_() for n, x in zip(self.names, s, strict=True)}
        self.products.use(a)
        out = self.tape.replay(self.h, self.products.of)
        run = self._block_run(out)
        if self.reference is not None:
            seen = run.look_by_few(self.probes[:FEW], self.reference)
            if not self._is_solved(seen):
                return Point(a, out, seen), False
        seen = self._confirmed(out)
        solved = self._is_solved(seen)
        if not solved and self.probes:
            seen = run.look(self.probes)
            self._compare(seen)
        return Point(a, out, seen), solved

    def _confirmed(self, out: Tensors) -> Seen:
        """As fresh probes see it."""
        return self._block_run(out).look(self._draw(len(self.probes), out))

    def _block_run(self, out: Tensors) -> BlockRun:
        return BlockRun(self.problem, self.index, self.h, self.k, out, self.batch_size, self.plain)

    def _derivative_or_secant(self, point: Point, degrees: Tensor | None = None) -> Tensor:
        """``∂r/∂s``; where torch has no second derivative, along the mean of ``s`` alone."""
        try:
            return self._derivative(point, degrees)
        except NotTwiceDifferentiableError:
            there, _ = self._run(point.s + _APART)
            along = (there.seen.residuals - point.seen.residuals) / _APART
            return along.unsqueeze(1).expand(-1, len(self.names)) / len(self.names)

    def _derivative(self, point: Point, degrees: Tensor | None = None) -> Tensor:
        """``∂r/∂s``, a row for each residual, by way of J and K.

        ``degrees`` are those of J in the multipliers, where they are known.
        """

        def by_j() -> Tensor:
            if degrees is not None:
                return degrees * point.seen.j
            j = self._block_run(point.out).differentiable_j(self.probes)
            # one probe tells the direction; how far to go, all of them do
            return along_logs(j, point.a) * point.seen.j / _distributed.mean(j.detach()).cpu()

        def by_k() -> Tensor:
            return along_logs(kernel(point.out), point.a)

        return chained(self.problem, self.k, point.seen, by_j, by_k)

    def _degrees(self) -> Tensor | None:
        """Those of J, as far as can be guessed: two for the only weight, and none for its bias."""
        ranks = [self.problem.twin.parameters[name].ndim for name in self.names]
        owners = {name.rpartition(".")[0] for name in self.names}
        if len(ranks) == 1:
            return torch.tensor([2.0], dtype=torch.float64)
        if len(owners) == 1 and len(ranks) == 2 and min(ranks) == 1 < max(ranks):
            return torch.tensor([rank > 1 for rank in ranks]).double() * 2
        return None
