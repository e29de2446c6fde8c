"""One sweep from front to back: every block solved for its own multipliers, once.

The loss is causal: what block ``l`` adds to it depends on ``h^l`` and the block's own parameters
only. So the blocks can be solved in order, each with the tuned ``h^l`` as its input.
"""

from __future__ import annotations

import math
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass

import torch
from torch import Tensor

from critinit.chain._tape import Tape
from critinit.chain._walk import Tensors
from critinit.losses import JKL, is_sum_over_blocks
from critinit.solvers._equation import Accuracy, Equation
from critinit.solvers._polish import Polish, Polished
from critinit.solvers._problem import (
    NotTwiceDifferentiableError,
    Problem,
    Solution,
    Step,
    TuningError,
    first_few,
    twice_differentiable,
)
from critinit.solvers._seen import Seen
from critinit.twin import Products


@dataclass(frozen=True)
class Sweep:
    """Solve block after block (`critinit.solvers._equation`), then polish where that fell short.

    Args:
        tol: How near to zero the residuals (for JLL, ``|log J|``) shall come. A block takes as
            many probes as bring the standard error of ``log J`` below half of it.
        max_evals: How often a block may be run to get there.
        max_probes: How many probes a block may take.
        polish: Rounds over all blocks at once, where J and K conflict or a parameter is shared
            (`critinit.solvers._polish`).
    """

    tol: float = 0.02
    max_evals: int = 8
    max_probes: int = 64
    polish: int = 3

    def __post_init__(self) -> None:
        if not self.tol > 0 or self.max_evals < 0 or self.max_probes < 1 or self.polish < 0:
            raise TuningError(
                f"{self!r}: tol is a number above 0, max_probes a whole number from 1 up, "
                "max_evals and polish from 0 up."
            )

    def solve(self, problem: Problem) -> Solution:
        """Sweep once over one batch, and polish on the same."""
        if not is_sum_over_blocks(problem.loss, len(problem.chain)):
            raise TuningError(
                f"the sweep solves block by block, but {problem.loss!r} is no sum of what single "
                "blocks add, or some add less than zero. Use solver=critinit.SGD(...)."
            )
        kinds = _Kinds(problem)
        if not (any(kinds.own) or (kinds.shared and self.polish)):
            raise TuningError(
                "every chosen parameter is zero, outside the chain, or used by several blocks, so "
                "that blocks cannot be solved one by one. Use solver=critinit.SGD(...)."
            )
        batch = next(problem.batches())
        accuracy = Accuracy(self.tol, self.max_evals, self.max_probes)
        a = {n: torch.ones((), requires_grad=True) for n in problem.twin.parameters}
        with twice_differentiable():
            with problem.twin.applied(a) as products:
                sweeper = _Sweeper(accuracy, problem, kinds.own, a, products, batch.size)
                problem.chain.walk(batch, sweeper, record=True)
            multipliers = dict.fromkeys(kinds.shared, 1.0) | sweeper.multipliers
            seen, unsolved, history = sweeper.seen, sweeper.unsolved, sweeper.history
            conflict = unsolved and problem.may_conflict
            path: list[Polished] = []
            if self.polish and (conflict or kinds.shared):
                with suppress(NotTwiceDifferentiableError):  # then the sweep has to do
                    polish = Polish(problem, batch, sweeper.probes, seen, multipliers)
                    path = polish.run(self.polish)
            if path:
                best = path[-1]
                multipliers = dict(zip(multipliers, best.s.exp().tolist(), strict=True))
                seen = best.seen
                unsolved = [i for i, block in seen.items() if not block.is_small(self.tol)]
                history = [*history, *(point.step for point in path)]
        everything = dict.fromkeys(problem.twin.parameters, 1.0) | multipliers
        message = _message(problem, kinds, seen, unsolved)
        return Solution(everything, history, not unsolved, message)


class _Kinds:
    """The chosen parameters: swept with their own block, shared by several, zero, or in none."""

    def __init__(self, problem: Problem) -> None:
        chosen = problem.twin.parameters
        uses = Counter(name for block in problem.chain for name in block.parameters)
        self.zero = problem.zero_parameters()
        alive = chosen.keys() - self.zero
        self.own = [[n for n in b.parameters if n in alive and uses[n] == 1] for b in problem.chain]
        self.shared = [name for name in chosen if name in alive and uses[name] > 1]
        self.outside = [name for name in chosen if name in alive and not uses[name]]


class _Sweeper:
    """An observer that solves each block and hands on the tuned ``h``."""

    def __init__(
        self,
        accuracy: Accuracy,
        problem: Problem,
        own: list[list[str]],
        a: dict[str, Tensor],
        products: Products,
        batch_size: int,
    ) -> None:
        self.accuracy = accuracy
        self.problem = problem
        self.own = own
        self.a = a
        self.products = products
        self.batch_size = batch_size
        self.counted = problem.counted()
        self.multipliers: dict[str, float] = {}
        self.probes = [problem.probes.count] * len(own)
        self.seen: dict[int, Seen] = {}
        self.unsolved: list[int] = []
        self.history: list[Step] = []

    def enter(self, h: Tensors) -> Tensors:
        return tuple(t.detach().requires_grad_() for t in h)

    def leave(self, index: int, h: Tensors, out: Tensors, tape: Tape | None) -> Tensors:
        assert tape is not None
        self.problem.report(index, len(self.own))
        names = self.own[index]
        if not (self.counted[index] and names):
            return out
        equation = Equation(
            self.problem, self.accuracy, index, names, self.products, h, tape, self.batch_size
        )
        point, solved = equation.solve({name: self.a[name] for name in names}, out)
        self.multipliers |= {n: float(a.detach()) for n, a in point.a.items()}
        self.probes[index] = len(equation.probes)
        self.seen[index] = seen = point.seen
        if not solved:
            self.unsolved.append(index)
        kernels = [float(equation.k), float(seen.k)]
        self.history.append(
            Step(seen.loss, [float(seen.j)], kernels, self.problem.chain.names[index])
        )
        return point.out


def _message(problem: Problem, kinds: _Kinds, seen: dict[int, Seen], unsolved: list[int]) -> str:
    """What was reached, and what stood in the way."""
    parts = [f"{len(seen) - len(unsolved)} of {len(seen)} blocks solved"]
    if unsolved:
        farthest = sorted(unsolved, key=lambda i: -seen[i].largest)
        places = [f"{problem.chain.names[i]} ({_miss(problem, seen, i)})" for i in farthest]
        parts.append(
            f"in {len(unsolved)} the best compromise, farthest from the aim in {first_few(places)}"
        )
    untouched = int(problem.counted().sum()) - len(seen)
    if untouched:
        parts.append(f"{untouched} hold nothing that scale= allows to multiply")
    if kinds.outside:
        parts.append(f"no block uses {first_few(kinds.outside)}")
    return "; ".join(parts)


def _miss(problem: Problem, seen: dict[int, Seen], index: int) -> str:
    """J, or K where that is farther from the aim."""
    residuals = seen[index].residuals.abs()
    if len(residuals) == 2 and residuals[1] > residuals[0] and isinstance(problem.loss, JKL):
        ratio = math.exp(float(seen[index].residuals[1]) / problem.loss.lam**0.5)
        return f"K × {ratio:.3g}"
    return f"J = {float(seen[index].j):.3g}"
