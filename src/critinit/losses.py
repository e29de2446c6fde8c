"""What AutoInit minimises: pure functions of J and K.

Each is ``½ Σ r²`` over residuals ``r`` of single blocks, which is all a solver needs to know. ``j``
holds ``J^{l,l+1}`` and ``k`` holds ``K^l``, one more. The input block leads from ``h^0`` to
``h^1``; the output block ends in the network's output. Any other callable of ``(j, k)`` that
returns a scalar will do as a loss, too.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from critinit.errors import CritinitError


class LossError(CritinitError):
    """This is no loss that can be minimised."""


class Loss(Protocol):
    """A scalar function of J and K."""

    def __call__(self, j: Tensor, k: Tensor) -> Tensor:
        """The loss."""
        ...


class SquaredLoss(ABC):
    """A loss that is half the sum of squared residuals, each of a single block."""

    input: bool
    output: bool

    def includes(self, blocks: int) -> Tensor:
        """Marks the blocks that count: all, but for the input or output block if so chosen."""
        marks = torch.ones(blocks, dtype=torch.bool)
        if blocks > 1:
            marks[0], marks[-1] = self.input, self.output
        return marks

    @abstractmethod
    def residuals(self, j: Tensor, k: Tensor, k_next: Tensor) -> Tensor:
        """A row for each block, from its J and the K before and behind it."""

    def __call__(self, j: Tensor, k: Tensor) -> Tensor:
        """The loss."""
        counted = self.includes(len(j)).to(j.device)
        rows = self.residuals(j[counted], k[:-1][counted], k[1:][counted])
        return 0.5 * rows.square().sum()


@dataclass(frozen=True)
class JLL(SquaredLoss):
    """Jacobian log loss, ``½ Σ_{l=1}^{L} (log J^{l,l+1})²`` (eq. loss_sq_J).

    >>> j = torch.tensor([9.0, 1.0, torch.e], dtype=torch.float64)  # the first is left out
    >>> float(JLL()(j, torch.ones(4)))
    0.5
    """

    input: bool = False
    output: bool = True

    def residuals(self, j: Tensor, k: Tensor, k_next: Tensor) -> Tensor:
        """``log J``."""
        return j.log().unsqueeze(1)


@dataclass(frozen=True)
class JSL(SquaredLoss):
    """Jacobian square loss, ``½ Σ_{l=1}^{L} (J^{l,l+1} − 1)²``.

    Its convergence is poor where J ≫ 1.
    """

    input: bool = False
    output: bool = True

    def residuals(self, j: Tensor, k: Tensor, k_next: Tensor) -> Tensor:
        """``J − 1``."""
        return (j - 1).unsqueeze(1)


@dataclass(frozen=True)
class JKL(SquaredLoss):
    """Jacobian-kernel loss (eq. jkle).

    ``½ Σ (log J^{l,l+1})² + λ/2 Σ (log K^{l+1}/K^l)²``, ``l = 0 … L``: the second term keeps the
    forward pass in hand, too. The sums include the input and output blocks, as in the paper's main
    text; its appendix leaves them out.
    """

    lam: float = 0.05
    input: bool = True
    output: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.lam < math.inf:
            raise LossError(f"JKL(lam={self.lam!r}): the weight λ of K is a number from 0 up.")

    def residuals(self, j: Tensor, k: Tensor, k_next: Tensor) -> Tensor:
        """``log J`` and ``√λ log K^{l+1}/K^l``."""
        return torch.stack([j.log(), self.lam**0.5 * (k_next / k).log()], dim=1)


def check_loss(loss: object, blocks: int) -> Loss:
    """Refuse what is no scalar function of J and K that can be differentiated."""
    if isinstance(loss, type) or not callable(loss):
        raise LossError(
            f"loss={loss!r} is no loss. Pass one such as critinit.JKL(0.05) or critinit.JLL(), or "
            "a function of the tensors J and K."
        )
    j = torch.ones(blocks, dtype=torch.float64, requires_grad=True)
    k = torch.ones(blocks + 1, dtype=torch.float64, requires_grad=True)
    try:
        value = loss(j, k)
    except Exception as error:  # anything: the function is the user's
        raise LossError(
            f"the loss raised {type(error).__name__} for {blocks} J and {blocks + 1} K: {error}"
        ) from error
    if not isinstance(value, Tensor) or value.numel() != 1 or not value.requires_grad:
        raise LossError(
            "the loss must return one number as a tensor that depends on J or K, such as "
            f"j.log().square().sum(); it returned {value!r}."
        )
    return loss


def is_sum_over_blocks(loss: Loss, blocks: int) -> bool:
    """Whether ``loss`` adds up what each block contributes by itself, never less than zero.

    Tried on random numbers: a sweep can only minimise such a loss.
    """
    if isinstance(loss, SquaredLoss):
        return True
    generator = torch.Generator().manual_seed(0)
    for _ in range(3):
        j, k = (
            torch.rand(n, generator=generator, dtype=torch.float64) + 0.5
            for n in (blocks, blocks + 1)
        )
        try:
            each = torch.stack([loss(j[i : i + 1], k[i : i + 2]) for i in range(blocks)])
        except Exception:  # it asks for more than one block
            return False
        if bool((each < 0).any()) or not torch.allclose(each.sum(), loss(j, k)):
            return False
    return True
