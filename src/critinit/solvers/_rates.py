"""Learning rates that are known to work for ReLU and linear networks, from the measured J(t).

There J of a block is proportional to the square of its weight's multiplier ``a``, so that the
paper's ``σ_w²`` is ``2 J / a²``, and the rates follow from J and ``a`` alone.
"""

from __future__ import annotations

from torch import Tensor

from critinit.losses import JLL, JSL, Loss


def one_step(loss: Loss, j: Tensor, a: Tensor) -> Tensor:
    """For each block, the rate that brings J to 1 at once (eq. 1step_lr, and its JSL form).

    >>> import torch
    >>> one_step(JLL(), torch.tensor(4.0), torch.tensor(1.0))  # a → a / √J = a − η (2/a) log J
    tensor(0.1803)
    """
    root = j.sqrt()
    if isinstance(loss, JLL):
        # (√J − 1) / log J is ½ at J = 1, where the quotient is 0/0
        log = j.log()
        quotient = ((root - 1) / log).where(log.abs() > 1e-6, log.new_tensor(0.5))
        return a.square() * quotient / (2 * root)
    if isinstance(loss, JSL):
        return a.square() / (2 * j * root * (1 + root))
    raise TypeError("rates are known for JLL and JSL")


def bound(loss: Loss, j: Tensor, a: Tensor) -> Tensor:
    """The largest rate that brings every block nearer to 1 (eq. eta_t): twice the one-step rate."""
    return 2 * one_step(loss, j, a).min()
