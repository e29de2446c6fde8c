"""One sweep from front to back: every block solved for its own multipliers, once.

The loss is causal: what block ``l`` adds to it depends on ``h^l`` and the block's own parameters
only. So the blocks can be solved in order, each with the tuned ``h^l`` as its input.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

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

_LONGEST_STEP = 6.0  # in log a
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
    """A block run at some multipliers: what came out, and its residuals."""

    s: Tensor
    out: Tensors
    j: Tensor
    k: Tensor
    residuals: Tensor
    derivative: Tensor | None  # of the residuals by s = log a
    noise: float  # standard error of log J

    @property
    def loss(self) -> float:
        return 0.5 * float(self.residuals.square().sum())


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
        self.h = tuple(t.detach().requires_grad_() for t in h)
        self.k = _distributed.mean(kernel(self.h).detach())
        self.tape = tape
        self.vs: list[Tensors] = []
        self.evaluations = 0

    def solve(self) -> tuple[_Point, bool]:
        """Return the best point, and whether its residuals are within tolerance."""
        tol = self.options.tol
        point = self._run(torch.zeros(len(self.names)), differentiate=True)
        point = self._with_enough_probes(point)
        derivative = point.derivative
        assert derivative is not None
        while self.evaluations < self.options.max_evals:
            step = _least_norm_step(derivative, point.residuals)
            if float((derivative @ step).abs().max()) <= tol / 2:
                break  # nothing that the multipliers could still change
            new = self._run(point.s + step, differentiate=False)
            if new.loss > point.loss or not math.isfinite(new.loss):
                new = self._run(point.s + step / 4, differentiate=False)
                if new.loss > point.loss:
                    break
            taken, gained = new.s - point.s, new.residuals - point.residuals
            slow = float(new.residuals.abs().max()) > max(
                tol, 0.3 * float(point.residuals.abs().max())
            )
            point = new
            if slow and self.evaluations < self.options.max_evals:
                point = self._run(point.s, differentiate=True)
                assert point.derivative is not None
                derivative = point.derivative
            else:
                error = gained - derivative @ taken
                derivative = derivative + torch.outer(error, taken) / taken.square().sum()
        return self._confirmed(point, derivative)

    def _with_enough_probes(self, point: _Point) -> _Point:
        """Run the first point again with more probes, if one tells J less well than asked for."""
        if math.isnan(point.noise):
            wanted = self.options.max_probes
        else:
            wanted = math.ceil((point.noise / self.options.tol) ** 2)
        missing = min(wanted, self.options.max_probes) - len(self.vs)
        if missing <= 0:
            return point
        self.vs += [self.problem.probes.like(point.out) for _ in range(missing)]
        return self._run(point.s, differentiate=True)

    def _confirmed(self, point: _Point, derivative: Tensor) -> tuple[_Point, bool]:
        """Judge by fresh probes; correct once for what they and the old ones say together."""
        old = point.residuals
        self.vs = [self.problem.probes.like(point.out) for _ in self.vs]
        fresh = self._run(point.s, differentiate=False)
        both = (old + fresh.residuals) / 2
        step = _least_norm_step(derivative, both)
        if float((derivative @ step).abs().max()) > self.options.tol / 2:
            corrected = self._run(point.s + step, differentiate=False)
            if corrected.loss <= fresh.loss:
                fresh = corrected
        solved = float(fresh.residuals.abs().max()) <= 3 * self.options.tol + 2 * fresh.noise
        return fresh, solved

    def _run(self, s: Tensor, differentiate: bool) -> _Point:
        """Run the block at ``a = exp(s)``."""
        self.evaluations += 1
        a = {
            name: x.exp().detach().requires_grad_(differentiate)
            for name, x in zip(self.names, s, strict=True)
        }
        with self.problem.twin.applied(a) as products:
            out = self.tape.replay(self.h, products.of)
            if not self.vs:
                self.vs = [self.problem.probes.like(out) for _ in range(self.problem.probes.count)]
            table = jacobian_norms(out, self.h, self.vs, self.batch_size, differentiate)
            j, k = table.mean().cpu(), kernel(out).cpu()
            mean_j, mean_k = _distributed.mean(j.detach()), _distributed.mean(k.detach())
            self._check_finite(mean_j, mean_k)
            leaves = mean_j.clone().requires_grad_(), mean_k.clone().requires_grad_()
            residuals = self.problem.block_residuals(leaves[0], self.k.cpu(), leaves[1])
            derivative = None
            if differentiate:
                derivative = self._derivative(residuals, leaves, (j, k), list(a.values()))
        noise = float(standard_error(table.detach()) / mean_j) if mean_j > 0 else 0.0
        return _Point(s, out, mean_j, mean_k, residuals.detach(), derivative, noise)

    def _derivative(
        self,
        residuals: Tensor,
        leaves: tuple[Tensor, Tensor],
        local: tuple[Tensor, Tensor],
        a: Sequence[Tensor],
    ) -> Tensor:
        """``∂r/∂s`` for ``s = log a``: by J and K, of which each is differentiated once."""
        by_a = []
        for value in local:
            found = (
                torch.autograd.grad(value, a, retain_graph=True, allow_unused=True)
                if value.requires_grad
                else [None] * len(a)
            )
            row = [
                torch.zeros(()) if g is None else (g * x).detach().cpu()
                for g, x in zip(found, a, strict=True)
            ]
            by_a.append(_distributed.mean(torch.stack(row)))
        rows = []
        for residual in residuals:
            outer = torch.autograd.grad(residual, leaves, retain_graph=True, allow_unused=True)
            terms = [g * row for g, row in zip(outer, by_a, strict=True) if g is not None]
            rows.append(torch.stack(terms).sum(0))
        return torch.stack(rows)

    def _check_finite(self, j: Tensor, k: Tensor) -> None:
        if not bool(torch.isfinite(torch.stack([j, k])).all()):
            raise TuningError(
                f"{self.label} has J = {float(j):.3g} and K = {float(k):.3g}: the loss is not "
                "finite. The model is as it was."
            )


def _least_norm_step(derivative: Tensor, residuals: Tensor) -> Tensor:
    """The shortest step among those that bring the linearised residuals down the most."""
    step: Tensor = -torch.linalg.pinv(derivative, rtol=_NEGLIGIBLE) @ residuals
    longest = float(step.abs().max())
    return step * min(1.0, _LONGEST_STEP / longest) if longest > 0 else step
