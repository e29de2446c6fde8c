"""One sweep from front to back: every block solved for its own multipliers, once.

The loss is causal: what block ``l`` adds to it depends on ``h^l`` and the block's own parameters
only. So the blocks can be solved in order, each with the tuned ``h^l`` as its input.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from critinit.apjn._estimator import standard_error
from critinit.chain._tape import Tape
from critinit.chain._walk import Tensors
from critinit.solvers import _distributed
from critinit.solvers._problem import (
    Problem,
    Solution,
    Step,
    TuningError,
    jacobian_norms,
    kernel,
    twice_differentiable,
)

_ENOUGH = 4  # probes, to tell their own spread
_LONGEST_STEP = 6.0  # in log a
_BY_DEGREES = (0.15, 0.9)  # the ratio of residuals by which a step is repeated
_UNSEEN = torch.empty(0)
_NEGLIGIBLE = 1e-3  # singular values below this fraction of the largest are noise


@dataclass(frozen=True)
class Sweep:
    """Solve block after block by Gauss–Newton in ``log a``.

    In each block the step of least norm is taken that brings the loss's residuals down, with the
    same probes until it is solved, and fresh ones to confirm. The derivative is taken once and
    then kept up to date by secants, as long as that makes progress.

    Args:
        tol: How near to zero the residuals (for JLL, ``|log J|``) shall come.
        max_evals: How often a block may be run to get there.
        max_probes: How many probes a block may take until the standard error is below ``tol``.
    """

    tol: float = 0.02
    max_evals: int = 8
    max_probes: int = 8

    def solve(self, problem: Problem) -> Solution:
        """Sweep once over one batch."""
        own = _own_parameters(problem)
        batch = next(problem.batches())
        sweeper = _Sweeper(self, problem, own, batch.size)
        with twice_differentiable():
            problem.chain.walk(batch, sweeper, record=True)
        multipliers = dict.fromkeys(problem.twin.parameters, 1.0) | sweeper.multipliers
        return Solution(
            multipliers, sweeper.history, not sweeper.unsolved, _message(sweeper, multipliers, own)
        )


def _own_parameters(problem: Problem) -> list[list[str]]:
    """The parameters of each block that no other block uses, zeros left out."""
    chosen = problem.twin.parameters
    uses = Counter(name for block in problem.chain for name in block.parameters)
    own = [
        [name for name in block.parameters if name in chosen and uses[name] == 1]
        for block in problem.chain
    ]
    if not any(own):
        raise TuningError(
            "every chosen parameter is used by more than one block, or by none, so that blocks "
            "cannot be solved one by one. Use solver=critinit.SGD(...)."
        )
    return [[name for name in names if bool(chosen[name].any())] for names in own]


def _message(sweeper: _Sweeper, multipliers: dict[str, float], own: list[list[str]]) -> str:
    solved = len(sweeper.history) - len(sweeper.unsolved)
    parts = [f"{solved} of {len(sweeper.history)} blocks solved"]
    if sweeper.unsolved:
        shown = ", ".join(sweeper.unsolved[:3]) + (", …" if len(sweeper.unsolved) > 3 else "")
        parts.append(f"the best compromise in {shown}")
    swept = {name for names in own for name in names}
    left = [name for name in multipliers if name not in swept]
    zeros = [name for name in left if not bool(sweeper.problem.twin.parameters[name].any())]
    if zeros:
        parts.append(f"{len(zeros)} parameters are zero and cannot be scaled, such as {zeros[0]}")
    others = [name for name in left if name not in zeros]
    if others:
        parts.append(
            f"{len(others)} are shared between blocks or outside the chain and stay, such as "
            f"{others[0]} (SGD can tune them)"
        )
    return "; ".join(parts)


@dataclass
class _Point:
    """A block run at multipliers ``exp(s)``: what came out, and what some probes say of it."""

    s: Tensor
    h: Tensors
    out: Tensors
    j: Tensor = _UNSEEN
    k: Tensor = _UNSEEN
    residuals: Tensor = _UNSEEN
    noise: float = math.nan  # standard error of log J

    @property
    def loss(self) -> float:
        """What the block adds to the loss."""
        return 0.5 * float(self.residuals.square().sum())

    @property
    def largest(self) -> float:
        """The largest residual."""
        return float(self.residuals.abs().max())


class _Sweeper:
    """An observer that solves each block and hands on the tuned ``h``."""

    def __init__(
        self, options: Sweep, problem: Problem, own: list[list[str]], batch_size: int
    ) -> None:
        self.options = options
        self.batch_size = batch_size
        self.problem = problem
        self.own = own
        self.counted = problem.counted()
        self.multipliers: dict[str, float] = {}
        self.history: list[Step] = []
        self.unsolved: list[str] = []

    def enter(self, h: Tensors) -> Tensors:
        return tuple(t.detach() for t in h)

    def leave(self, index: int, h: Tensors, out: Tensors, tape: Tape | None) -> Tensors:
        assert tape is not None
        self.problem.report(index, len(self.own))
        if not (self.counted[index] and self.own[index]):
            return out
        block = _Block(self, index, h, tape)
        point, solved = block.solve()
        name = self.problem.chain.names[index]
        self.multipliers |= dict(zip(self.own[index], point.s.exp().tolist(), strict=True))
        kernels = [float(block.k), float(point.k)]
        self.history.append(Step(point.loss, [float(point.j)], kernels, name))
        if not solved:
            self.unsolved.append(f"{name} (J = {float(point.j):.3g})")
        return tuple(t.detach() for t in point.out)


class _Block:
    """The equation of one block."""

    def __init__(self, sweeper: _Sweeper, index: int, h: Tensors, tape: Tape) -> None:
        self.options = sweeper.options
        self.problem = sweeper.problem
        self.names = sweeper.own[index]
        self.batch_size = sweeper.batch_size
        self.label = f"block {index} ({sweeper.problem.chain.names[index]})"
        self.h = tuple(t.detach() for t in h)
        self.k = _distributed.mean(kernel(self.h).detach()).cpu()
        self.tape = tape
        self.probes: list[Tensors] = []
        self.evaluations = 0

    def solve(self) -> tuple[_Point, bool]:
        """Return the best point, and whether its residuals are within tolerance."""
        point, derivative = self._differentiated(torch.zeros(len(self.names)))
        if self._is_small(point):
            return point, True
        while self._may_run():
            step = _least_norm_step(derivative, point.residuals)
            if float((derivative @ step).abs().max()) <= self.options.tol / 2:
                break  # nothing that the multipliers could still change
            new, confirmed = self._advanced(point, step)
            if confirmed:
                return new, True
            if new is point:
                break
            if new.largest > 0.5 * point.largest and self._may_run():
                point, derivative = self._differentiated(new.s)
            else:
                derivative = _secant(derivative, new.s - point.s, new.residuals - point.residuals)
                point = new
        return point, self._is_small(self._by_fresh_probes(point))

    def _advanced(self, point: _Point, step: Tensor) -> tuple[_Point, bool]:
        """Take a step, and once more of it where it brings the residuals down by degrees.

        A residual block comes near J = 1 only as its branch vanishes: its residual falls like an
        exponential of ``log a``, of which a Newton step removes a factor e.
        """
        new, confirmed = self._run(point.s + step)
        while not (confirmed or new.loss < point.loss):
            if not self._may_run():
                return point, False
            step = step / 4
            new, confirmed = self._run(point.s + step)
        ratio = new.largest / point.largest
        if confirmed or not _BY_DEGREES[0] < ratio < _BY_DEGREES[1] or not self._may_run():
            return new, confirmed
        steps = math.log(self.options.tol / new.largest) / math.log(ratio)
        further, confirmed = self._run(new.s + _limited(steps * (new.s - point.s)))
        return (further, confirmed) if confirmed or further.loss < new.loss else (new, False)

    def _may_run(self) -> bool:
        return self.evaluations < self.options.max_evals

    def _is_small(self, point: _Point) -> bool:
        return point.largest <= 2 * self.options.tol + 2 * point.noise

    def _run(self, s: Tensor) -> tuple[_Point, bool]:
        """Run the block at ``a = exp(s)``, and say whether fresh probes find it solved.

        If not, it comes as the old probes see it, to be compared with what they saw before.
        """
        a = {name: x.exp() for name, x in zip(self.names, s, strict=True)}
        point = self._by_fresh_probes(_Point(s, *self._replayed(a)))
        if self._is_small(point):
            return point, True
        return self._seen_by(self.probes, point), False

    def _by_fresh_probes(self, point: _Point) -> _Point:
        return self._seen_by([self.problem.probes.like(point.out) for _ in self.probes], point)

    def _differentiated(self, s: Tensor) -> tuple[_Point, Tensor]:
        """Run the block, and differentiate its residuals by ``s = log a``."""
        a = {name: x.exp().detach().requires_grad_() for name, x in zip(self.names, s, strict=True)}
        h, out = self._replayed(a)
        if not self.probes:
            self.probes = [self.problem.probes.like(out) for _ in range(self.problem.probes.count)]
        # one probe tells the direction; how far to go, all of them do
        first = jacobian_norms(out, h, self.probes[:1], self.batch_size, graph=True)
        point = self._seen_by(self.probes, _Point(s, h, out), first.detach())
        missing = self._probes_needed(point.noise) - len(self.probes)
        if missing > 0:
            self.probes += [self.problem.probes.like(out) for _ in range(missing)]
            point = self._seen_by(self.probes, point, first.detach())
        return point, self._derivative(point, first.mean(), a)

    def _derivative(self, point: _Point, first_j: Tensor, a: Mapping[str, Tensor]) -> Tensor:
        """``∂r/∂s``, a row for each residual, by way of J and K."""
        j, k = point.j.clone().requires_grad_(), point.k.clone().requires_grad_()
        residuals = self.problem.block_residuals(j, self.k, k)
        outer = [
            torch.autograd.grad(r, (j, k), retain_graph=True, allow_unused=True) for r in residuals
        ]
        rows = torch.zeros(len(residuals), len(a))
        if any(by_j is not None for by_j, _ in outer):
            relative = point.j / _distributed.mean(first_j.detach()).cpu()
            along = relative * self._by_log_multipliers(first_j, a)
            rows += torch.stack([0 * along if by_j is None else by_j * along for by_j, _ in outer])
        if any(by_k is not None for _, by_k in outer):
            along = self._by_log_multipliers(kernel(point.out), a)
            rows += torch.stack([0 * along if by_k is None else by_k * along for _, by_k in outer])
        return rows

    def _replayed(self, a: Mapping[str, Tensor]) -> tuple[Tensors, Tensors]:
        self.evaluations += 1
        h = tuple(t.detach().requires_grad_() for t in self.h)
        with self.problem.twin.applied(a) as products:
            return h, self.tape.replay(h, products.of)

    def _seen_by(
        self, probes: Sequence[Tensors], point: _Point, first: Tensor | None = None
    ) -> _Point:
        """The same point, as other probes see it; what the first one saw may be known already."""
        tables = [] if first is None else [first]
        for probe in probes[len(tables) :]:
            tables.append(jacobian_norms(point.out, point.h, [probe], self.batch_size, graph=False))
        table = torch.cat(tables)
        j = _distributed.mean(table.mean()).cpu()
        k = _distributed.mean(kernel(point.out).detach()).cpu()
        if not bool(torch.isfinite(torch.stack([j, k])).all()):
            raise TuningError(
                f"{self.label} has J = {float(j):.3g} and K = {float(k):.3g}: the loss is not "
                "finite. The model is as it was."
            )
        residuals = self.problem.block_residuals(j, self.k, k)
        noise = float(_probe_noise(table).cpu() / j) if j > 0 else 0.0
        return replace(point, j=j, k=k, residuals=residuals, noise=noise)

    def _probes_needed(self, noise: float) -> int:
        """So many that the standard error of log J is below the tolerance."""
        if math.isnan(noise):  # a single example and a single probe do not tell
            return self.options.max_probes
        wanted = len(self.probes) * (noise / self.options.tol) ** 2
        return min(math.ceil(wanted), self.options.max_probes)

    def _by_log_multipliers(self, value: Tensor, a: Mapping[str, Tensor]) -> Tensor:
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


def _least_norm_step(derivative: Tensor, residuals: Tensor) -> Tensor:
    """The shortest step among those that bring the linearised residuals down the most."""
    step: Tensor = -torch.linalg.pinv(derivative, rtol=_NEGLIGIBLE) @ residuals
    return _limited(step)


def _limited(step: Tensor) -> Tensor:
    longest = float(step.abs().max())
    return step * min(1.0, _LONGEST_STEP / longest) if longest > 0 else step
