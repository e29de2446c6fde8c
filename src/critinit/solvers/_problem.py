"""What a solver is given, and what it returns."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from critinit._format import numbers
from critinit.apjn import Probes
from critinit.apjn._estimator import examples_of, size_of
from critinit.chain import Chain
from critinit.chain._inputs import Batch
from critinit.chain._walk import Tensors
from critinit.errors import CritinitError
from critinit.losses import Loss, SquaredLoss
from critinit.solvers import _distributed
from critinit.twin import Twin


@dataclass(frozen=True)
class Step:
    """One line of a solver's history: a step of all blocks, or the solution of one."""

    loss: float
    apjn: list[float]
    kernel: list[float]
    block: str | None = None

    def to_dict(self) -> dict[str, object]:
        """Plain numbers and strings, ready for JSON (infinities and NaN become None)."""
        return {
            "loss": self.loss,
            "apjn": numbers(self.apjn),
            "kernel": numbers(self.kernel),
            "block": self.block,
        }


@dataclass(frozen=True)
class Problem:
    """Bring ``loss`` of ``chain`` down by the multipliers of ``twin``.

    ``alive`` marks the blocks that pass any gradient at all: no multiplier can help the others
    (behind a head of zeros, say), and they are left out of the loss.
    """

    chain: Chain
    twin: Twin
    loss: Loss
    alive: Tensor
    batches: Callable[[], Iterator[Batch]]  # a fresh round over the data
    probes: Probes
    report: Callable[[int, int], None]  # how much is done, of how much

    def in_loss(self) -> Tensor:
        """Marks the blocks that the loss is about."""
        if isinstance(self.loss, SquaredLoss):
            return self.loss.includes(len(self.chain))
        return torch.ones_like(self.alive)

    def counted(self) -> Tensor:
        """Those of them that pass any gradient."""
        return self.in_loss() & self.alive

    def zero_parameters(self) -> list[str]:
        """The chosen ones that no multiplier can move."""
        return [name for name, p in self.twin.parameters.items() if _is_zero(p)]

    def limits(self) -> list[str]:
        """What keeps any solver from its aim, in words."""
        parts = []
        marks = (self.in_loss() & ~self.alive).tolist()
        if dead := [n for n, is_dead in zip(self.chain.names, marks, strict=True) if is_dead]:
            parts.append(f"no gradient passes {first_few(dead)}")
        if zero := self.zero_parameters():
            parts.append(
                f"{len(zero)} parameters are zero and cannot be scaled ({first_few(zero)}): "
                "base= or critinit.reset_ draws them"
            )
        return parts

    @property
    def may_conflict(self) -> bool:
        """Whether a block can miss its aim for the scale of its input: not by J alone."""
        one = torch.ones(())
        alone = isinstance(self.loss, SquaredLoss) and len(self.block_residuals(one, one, one)) == 1
        return not alone

    def objective(self, j: Tensor, k: Tensor) -> Tensor:
        """The loss, without blocks that are not alive."""
        if isinstance(self.loss, SquaredLoss):
            counted = self.counted()
            rows = self.loss.residuals(j[counted], k[:-1][counted], k[1:][counted])
            return 0.5 * rows.square().sum()
        return self.loss(j.where(self.alive, 1.0), k)

    def block_residuals(self, j: Tensor, k: Tensor, k_next: Tensor) -> Tensor:
        """What one block adds to the loss, as residuals whose half squares it is."""
        if isinstance(self.loss, SquaredLoss):
            return self.loss.residuals(j.reshape(1), k.reshape(1), k_next.reshape(1))[0]
        own = self.loss(j.reshape(1), torch.stack([k, k_next]))
        return (2 * own).clamp_min(1e-12).sqrt().reshape(1)


@dataclass(frozen=True)
class Solution:
    """The multipliers, how they were found, and why the solver stopped."""

    multipliers: dict[str, float]
    history: list[Step]
    converged: bool
    message: str


class Solver(Protocol):
    """Anything that solves a `Problem`."""

    def solve(self, problem: Problem) -> Solution:
        """Find the multipliers."""
        ...


class TuningError(CritinitError):
    """The multipliers cannot be found."""


class NotTwiceDifferentiableError(TuningError):
    """Some operation of the model has no second derivative in torch."""


@contextmanager
def second_derivatives() -> Iterator[None]:
    """Inside, torch's complaint about a missing one is turned into our own."""
    try:
        yield
    except RuntimeError as error:
        if "is not implemented" not in str(error):
            raise
        raise NotTwiceDifferentiableError(
            f"the model has no second derivative in torch ({error}), which gradient descent "
            "needs. Use solver=critinit.Sweep(), which can do without."
        ) from error


def jacobian_norms(
    out: Tensors, h: Tensors, vs: Sequence[Tensors], batch_size: int, graph: bool
) -> Tensor:
    """The estimator of J: a table of probes × examples whose mean it is.

    With ``graph`` it can itself be differentiated. By a vector-Jacobian product: backward through
    a Jacobian-vector product is wrong for normalization layers in torch.
    """
    rows = []
    for v in vs:
        found = torch.autograd.grad(
            out, h, v, create_graph=graph, retain_graph=True, allow_unused=True
        )
        rows.append(sums_of_squares([g for g in found if g is not None], batch_size, h))
    table = torch.stack(rows)
    return table * (table.shape[1] / size_of(out))


def sums_of_squares(tensors: Sequence[Tensor], batch_size: int, h: Tensors) -> Tensor:
    """The sum of squares of each example, in single precision at least."""
    rows = [examples_of(t, batch_size) for t in tensors]
    if len({len(row) for row in rows}) != 1:
        rows = [row.reshape(1, -1) for row in rows] or [h[0].new_zeros(1, 1)]
    dtype = torch.promote_types(rows[0].dtype, torch.float32)
    return torch.stack([row.to(dtype).square().sum(1) for row in rows]).sum(0)


def kernel(h: Tensors) -> Tensor:
    """K, differentiably."""
    dtype = torch.promote_types(h[0].dtype, torch.float32)
    return torch.stack([t.to(dtype).square().sum() for t in h]).sum() / size_of(h)


def measured_kernel(h: Tensors) -> Tensor:
    """K over all processes, as a plain number in double precision."""
    return _distributed.mean(kernel(h).detach()).cpu().double()


@contextmanager
def twice_differentiable() -> Iterator[None]:
    """The fused attention kernels have no second derivative."""
    with sdpa_kernel(SDPBackend.MATH):
        yield


def check_block_finite(problem: Problem, index: int, j: Tensor, k: Tensor) -> None:
    """Refuse a J or K that is not a number to work with."""
    if not bool(torch.isfinite(torch.stack([j, k])).all()):
        raise TuningError(
            f"block {index} ({problem.chain.names[index]}) has J = {float(j):.3g} and "
            f"K = {float(k):.3g}: the loss is not finite. The model is as it was. With gradient "
            "descent, take a smaller learning rate."
        )


def check_loss_finite(loss: float, j: Tensor, k: Tensor) -> None:
    """Refuse a loss that is not finite although every J and K is."""
    if not math.isfinite(loss):
        raise TuningError(
            f"the loss is {loss} at J = {shown(j)} and K = {shown(k)}. Let it be finite for all "
            "positive J and K."
        )


def shown(values: Tensor) -> str:
    """The first few."""
    first = ", ".join(f"{float(v):.3g}" for v in values[:4])
    return f"({first}{', …' if len(values) > 4 else ''})"


def _is_zero(tensor: Tensor) -> bool:
    """Most tensors show by their first few numbers that they are not."""
    return not bool(tensor.flatten()[:8].any()) and not bool(tensor.any())


def first_few(names: Sequence[str], few: int = 3) -> str:
    """The first few of a list, in words."""
    return ", ".join(names[:few]) + (", …" if len(names) > few else "")


def plain(multipliers: Mapping[str, Tensor]) -> dict[str, float]:
    return {name: float(a.detach()) for name, a in multipliers.items()}
