"""One sweep from front to back: every block solved for its own multipliers, once.

The loss is causal: what block ``l`` adds to it depends on ``h^l`` and the block's own parameters
only. So the blocks can be solved in order, each with the tuned ``h^l`` as its input.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from critinit.chain._tape import Tape
from critinit.chain._walk import Tensors
from critinit.solvers._equation import Accuracy, Equation
from critinit.solvers._problem import (
    Problem,
    Solution,
    Step,
    TuningError,
    twice_differentiable,
)
from critinit.twin import Products


@dataclass(frozen=True)
class Sweep:
    """Solve block after block; see `critinit.solvers._equation` for how.

    Args:
        tol: How near to zero the residuals (for JLL, ``|log J|``) shall come. A block takes as
            many probes as bring the standard error of ``log J`` below half of it.
        max_evals: How often a block may be run to get there.
        max_probes: How many probes a block may take.
    """

    tol: float = 0.02
    max_evals: int = 8
    max_probes: int = 64

    def solve(self, problem: Problem) -> Solution:
        """Sweep once over one batch."""
        # signs have the smaller variance, and cost less to draw
        problem = replace(problem, probes=replace(problem.probes, noise="rademacher"))
        own = _own_parameters(problem)
        batch = next(problem.batches())
        a = {n: torch.ones((), requires_grad=True) for n in problem.twin.parameters}
        with twice_differentiable(), problem.twin.applied(a) as products:
            sweeper = _Sweeper(self, problem, own, a, products, batch.size)
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
    return [[name for name in names if not _is_zero(chosen[name])] for names in own]


def _is_zero(tensor: Tensor) -> bool:
    """Most tensors show by their first few numbers that they are not."""
    return not bool(tensor.flatten()[:8].any()) and not bool(tensor.any())


def _message(sweeper: _Sweeper, multipliers: dict[str, float], own: list[list[str]]) -> str:
    solved = len(sweeper.history) - len(sweeper.unsolved)
    parts = [f"{solved} of {len(sweeper.history)} blocks solved"]
    if sweeper.unsolved:
        shown = ", ".join(sweeper.unsolved[:3]) + (", …" if len(sweeper.unsolved) > 3 else "")
        parts.append(f"the best compromise in {shown}")
    swept = {name for names in own for name in names}
    left = [name for name in multipliers if name not in swept]
    zeros = [name for name in left if _is_zero(sweeper.problem.twin.parameters[name])]
    if zeros:
        parts.append(f"{len(zeros)} parameters are zero and cannot be scaled, such as {zeros[0]}")
    others = [name for name in left if name not in zeros]
    if others:
        parts.append(
            f"{len(others)} are shared between blocks or outside the chain and stay, such as "
            f"{others[0]} (SGD can tune them)"
        )
    return "; ".join(parts)


class _Sweeper:
    """An observer that solves each block and hands on the tuned ``h``."""

    def __init__(
        self,
        options: Sweep,
        problem: Problem,
        own: list[list[str]],
        a: dict[str, Tensor],
        products: Products,
        batch_size: int,
    ) -> None:
        self.accuracy = Accuracy(options.tol, options.max_evals, options.max_probes)
        self.problem = problem
        self.own = own
        self.a = a
        self.products = products
        self.batch_size = batch_size
        self.counted = problem.counted()
        self.multipliers: dict[str, float] = {}
        self.history: list[Step] = []
        self.unsolved: list[str] = []

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
        name = self.problem.chain.names[index]
        self.multipliers |= {n: float(a.detach()) for n, a in point.a.items()}
        kernels = [float(equation.k), float(point.k)]
        self.history.append(Step(point.loss, [float(point.j)], kernels, name))
        if not solved:
            self.unsolved.append(f"{name} (J = {float(point.j):.3g})")
        return point.out
