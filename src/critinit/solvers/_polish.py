"""What a sweep leaves over where J and K conflict: Gauss–Newton over all blocks at once.

A sweep takes each block's input as given. Where a block cannot have J = 1 and constant K together,
another scale of its input may allow it, and the blocks before can provide that. What they do to
it passes through one number: the scale of ``h^l``, or ``log K^l``. So it is enough to know how each
block's J and K depend on its own multipliers and on the scale of its input:

``δ log K^{l+1} = e_l · δs + f_l δ log K^l``,  ``δ r_l = D_l · δs + g_l δ log K^l``.

Followed from front to back, that gives the derivative of all residuals by all ``s = log a``, while
only one block's graph is held at a time. It is not exact (multipliers may also turn ``h``), but a
step counts only if the loss has come down. A parameter that several blocks share is no obstacle.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from critinit._state import random_state
from critinit.chain._inputs import Batch
from critinit.chain._tape import Tape
from critinit.chain._walk import Tensors
from critinit.solvers import _distributed
from critinit.solvers._plain import PlainLayer
from critinit.solvers._problem import Problem, Step, kernel, measured_kernel
from critinit.solvers._seen import FEW, BlockRun, Reference, Seen, chained
from critinit.solvers._step import along_logs, damped_step

_DAMPING = 1e-2
_WORTH = 0.995  # a round has to bring the loss below this fraction, or it was the last


@dataclass(frozen=True)
class Polished:
    """Multipliers, and what the blocks in the loss look like with them."""

    s: Tensor
    seen: dict[int, Seen]
    kernel: list[float]  # K of every h^l
    derivative: Tensor  # of all residuals by s

    @property
    def residuals(self) -> Tensor:
        return torch.cat([seen.residuals for seen in self.seen.values()])

    @property
    def loss(self) -> float:
        return sum(seen.loss for seen in self.seen.values())

    @property
    def step(self) -> Step:
        """As a line of a solver's history."""
        blocks = range(len(self.kernel) - 1)
        j = [float(self.seen[i].j) if i in self.seen else math.nan for i in blocks]
        return Step(self.loss, j, self.kernel)


class Polish:
    """Rounds of damped Gauss–Newton from given multipliers, with the same few probes in each.

    What a sweep has ``seen`` there, by as many probes as it took, is what they are compared with.
    """

    def __init__(
        self,
        problem: Problem,
        batch: Batch,
        probes: Sequence[int],
        seen: Mapping[int, Seen],
        start: Mapping[str, float],
    ) -> None:
        self.problem = problem
        self.batch = batch
        self.probes = [min(count, FEW) for count in probes]  # for each block, none for plain ones
        self.swept = seen
        self.references: dict[int, Reference] = {}
        self.names = list(start)
        self.start = torch.tensor(list(start.values()), dtype=torch.float64).log()
        self._draws = problem.probes.generator.get_state()

    def run(self, rounds: int) -> list[Polished]:
        """The point it starts from and each better one, the best last."""
        path = [self._linearized(self.start)]
        damping = _DAMPING
        for _ in range(rounds):
            here = path[-1]
            step = damped_step(here.derivative, here.residuals, damping)
            expected = 0.5 * float((here.residuals + here.derivative @ step).square().sum())
            if expected > _WORTH * here.loss:
                break
            there = self._linearized(here.s + step)
            if there.loss < here.loss:
                path.append(there)
                damping /= 4
            else:
                damping *= 16
        return path

    def look(self, run: BlockRun, draws: Sequence[Tensors]) -> Seen:
        """What the sweep saw where this is where it ended, and what that implies elsewhere."""
        if run.index in self.references:
            return run.look_by_few(draws, self.references[run.index])
        seen = run.look(draws)
        if run.index not in self.swept:
            return seen
        self.references[run.index] = Reference.between(self.swept[run.index], seen.table)
        return self.swept[run.index]

    def _linearized(self, s: Tensor) -> Polished:
        self.problem.probes.generator.set_state(self._draws)
        a = {name: x.exp().float().requires_grad_() for name, x in zip(self.names, s, strict=True)}
        observer = _Linearization(self, a, self.batch.size)
        with self.problem.twin.applied(a), random_state(seed=0):
            self.problem.chain.walk(self.batch, observer)
        return Polished(s, observer.seen, observer.kernel, torch.cat(observer.rows))


class _Linearization:
    """An observer that differentiates each block by its multipliers and its input's scale."""

    def __init__(self, polish: Polish, a: dict[str, Tensor], batch_size: int) -> None:
        self.polish = polish
        self.problem = polish.problem
        self.probes = polish.probes
        self.a = a
        self.batch_size = batch_size
        self.counted = polish.problem.counted()
        self.seen: dict[int, Seen] = {}
        self.rows: list[Tensor] = []
        self.kernel: list[float] = []
        self._k = torch.empty(0)
        self._log_k = torch.zeros(len(a), dtype=torch.float64)  # ∂ log K^l / ∂s

    def enter(self, h: Tensors) -> Tensors:
        h = tuple(t.detach().requires_grad_() for t in h)
        if not self.kernel:
            self._k = measured_kernel(h)
            self.kernel.append(float(self._k))
        return h

    def leave(self, index: int, h: Tensors, out: Tensors, tape: Tape | None) -> Tensors:
        by_k_next = self._by_s(kernel(out), index, h)
        if self.counted[index]:
            plain = PlainLayer.found(out, h, known=not self.probes[index])
            run = BlockRun(self.problem, index, h, self._k, out, self.batch_size, plain)
            draws = [self.problem.probes.like(out) for _ in range(self.probes[index])]
            seen = self.polish.look(run, draws)
            j = run.differentiable_j(draws)

            def by_j() -> Tensor:
                first = _distributed.mean(j.detach()).cpu()
                return self._by_s(j, index, h) * seen.j / first

            row = chained(
                self.problem,
                self._k,
                seen,
                by_j,
                lambda: by_k_next,
                lambda: self._log_k * self._k,
            )
            self.seen[index] = seen
            self.rows.append(row)
        self._k = measured_kernel(out)
        self.kernel.append(float(self._k))
        self._log_k = by_k_next / self._k
        return out

    def _by_s(self, value: Tensor, index: int, h: Tensors) -> Tensor:
        """By the multipliers of this block directly, and by all before it through ``log K^l``."""
        own = {n: self.a[n] for n in self.problem.chain[index].parameters if n in self.a}
        scale = {f"h.{i}": t for i, t in enumerate(h)}
        along = along_logs(value, own | scale)
        row = 0.5 * along[len(own) :].sum() * self._log_k  # h scales like the root of K
        row[[list(self.a).index(n) for n in own]] += along[: len(own)]
        return row
