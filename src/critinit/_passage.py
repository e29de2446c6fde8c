"""What one run of a network shows: J, K and the correlation of examples, block by block."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from critinit.apjn import Estimator
from critinit.apjn._estimator import examples_of, size_of, squared_norms, standard_error
from critinit.chain._chain import Chain
from critinit.chain._tape import Tape
from critinit.chain._walk import Tensors
from critinit.errors import NotDifferentiableError, NotFiniteError


class Passage:
    """One run of the model: an observer that measures every block as it passes."""

    def __init__(
        self,
        chain: Chain,
        estimator: Estimator,
        batch_size: int,
        report: Callable[[int], None],
    ) -> None:
        self.names = chain.names
        self.estimator = estimator
        self.batch_size = batch_size
        self.report = report
        self.contributions: list[Tensor] = []
        self.kernel: list[float] = []
        self.correlation: list[float] = []

    @classmethod
    def join(cls, passages: list[Passage]) -> Passage:
        """Several runs with a probe each, as one run with many."""
        first = passages[0]
        tables = zip(*(p.contributions for p in passages), strict=True)
        first.contributions = [torch.cat(list(rows)) for rows in tables]
        return first

    def enter(self, h: Tensors) -> Tensors:
        if not self.kernel:
            self._note(h, "the input")
        return self.estimator.enter(h)

    def leave(self, index: int, h: Tensors, out: Tensors, tape: Tape | None) -> Tensors:
        block = f"block {index} ({self.names[index]})"
        self._note(out, block)
        try:
            table = self.estimator.contributions(h, out, self.batch_size)
        except NotDifferentiableError as error:
            raise NotDifferentiableError(f"{block}: {error}") from error
        if not bool(torch.isfinite(table).all()):
            raise NotFiniteError(
                f"{block} has a derivative that is NaN or infinite, while its output is finite. "
                "Look for a root, logarithm or quotient at zero in it."
            )
        self.contributions.append(table)
        self.report(len(self.contributions))
        return out

    def _note(self, h: Tensors, block: str) -> None:
        h = tuple(t.detach() for t in h)
        squares = squared_norms(h, self.batch_size)
        if not bool(torch.isfinite(squares).all()):
            raise _not_finite(h, block)
        self.kernel.append(float(squares.sum()) / size_of(h))
        self.correlation.append(_correlation(h, squares))

    def means(self) -> Tensor:
        """J of every block on this batch."""
        return torch.stack([table.mean() for table in self.contributions]).cpu()

    def standard_errors(self) -> Tensor:
        return torch.stack([standard_error(table) for table in self.contributions]).cpu()


def _correlation(h: Tensors, squares: Tensor) -> float:
    """The mean cosine between different examples: from the length of the sum of unit vectors."""
    examples = len(squares)
    if examples < 2 or not bool((squares > 0).all()):
        return math.nan
    total = 0.0
    for tensor in h:
        rows = examples_of(tensor, examples).to(torch.promote_types(tensor.dtype, torch.float32))
        unit_sum = squares.rsqrt().to(rows) @ rows
        total += float(torch.linalg.vector_norm(unit_sum, dtype=torch.float64)) ** 2
    return (total - examples) / (examples * (examples - 1))


def _not_finite(h: Tensors, block: str) -> NotFiniteError:
    bad = sum(int((~torch.isfinite(t)).sum()) for t in h)
    return NotFiniteError(
        f"{block} produced NaN or infinity: {bad} of {size_of(h)} values, from a finite input. "
        "Look at the parameters and operations of this block."
    )
