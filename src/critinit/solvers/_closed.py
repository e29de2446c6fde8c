"""A plain layer's equation in closed form: how J and K go with its multipliers is known.

With ``out = a_W z + a_b b`` the block has ``J ∝ a_W²`` and

``K^{l+1} = a_W² ⟨z²⟩ + 2 a_W a_b ⟨z b⟩ + a_b² ⟨b²⟩``,

so that it need not be run again, and no graph of it is differentiated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from critinit.chain._walk import Tensors
from critinit.solvers import _distributed
from critinit.solvers._seen import BlockRun, Seen
from critinit.solvers._step import damped_step
from critinit.twin import layer_behind

_MOST_STEPS = 30
_DAMPING = 3e-3  # at first, to end in the nearest minimum
_HARDLY = 1e-9  # where there is just one
_WORTH = 0.995  # a step has to promise to bring the loss below this fraction, or it was the last
_PRICE = 1e-4  # of moving log a_b, on the scale of squared residuals


@dataclass(frozen=True)
class ClosedForm:
    """The residuals of a plain layer as a function of ``s = log a``, relative to a run of it."""

    run: BlockRun
    seen: Seen
    weight: Tensor  # one-hot: which of the multipliers is the weight's
    bias: Tensor
    shift: Tensor | None  # a_b b of that run
    moments: Tensor  # ⟨z²⟩, ⟨z b⟩, ⟨b²⟩, with multipliers

    @classmethod
    def found(cls, run: BlockRun, seen: Seen, names: Sequence[str]) -> Self | None:
        """None unless nothing but the weight and bias of a plain layer are multiplied."""
        call = layer_behind(run.out[0]) if run.plain is not None else None
        if call is None:
            return None
        tuned = [run.problem.twin.parameters[name] for name in names]
        weight = torch.tensor([p is call.layer.weight for p in tuned]).double()
        bias = torch.tensor([p is call.layer.bias for p in tuned]).double()
        if not bool((weight + bias).all()):
            return None
        shift = call.layer.scaled_bias()
        if shift is not None:
            shift = shift.detach().reshape(call.layer.bias_shape)
        moments = _distributed.mean(_moments(run.out[0].detach(), shift)).cpu().double()
        return cls(run, seen, weight, bias, shift, moments)

    def at(self, s: Tensor) -> tuple[Tensors, Seen]:
        """What the block returns at multipliers ``exp(s)`` times those of the run, and its J, K."""
        w, b = float((self.weight @ s).exp()), float((self.bias @ s).exp())
        out = self.run.out[0].detach() * w
        if self.shift is not None:
            out = out + (b - w) * self.shift.to(out.dtype)
        j, k_next = self._moved(s)
        residuals = self.run.problem.block_residuals(j, self.run.k, k_next)
        table = self.seen.table * w**2
        return (out,), Seen(j, k_next, residuals, 0.0, torch.zeros_like(residuals), table)

    def _moved(self, s: Tensor) -> tuple[Tensor, Tensor]:
        """J and K behind the block."""
        w, b = self.weight @ s, self.bias @ s
        k_next = torch.stack([2 * w, w + b, 2 * b]).exp() @ (self.moments * _ONCE_TWICE_ONCE)
        return self.seen.j * (2 * w).exp(), k_next

    def minimized(self, tol: float) -> Tensor:
        """Levenberg–Marquardt from ``s = 0``, for the loss and a small price on moving the bias.

        Where J and K conflict, a bias could be blown up or put out for the last bit of this
        block's loss; what other blocks then lose by it is more.
        """
        s = torch.zeros(len(self.weight), dtype=torch.float64)
        here, derivative = self._linearized(s)
        damping = _DAMPING if self.run.problem.may_conflict else _HARDLY
        for _ in range(_MOST_STEPS):
            step = damped_step(derivative, here, damping)
            if _loss(here + derivative @ step) > _WORTH * _loss(here):
                break
            there, derivative_there = self._linearized(s + step)
            if _loss(there) < _loss(here):
                s, here, derivative = s + step, there, derivative_there
                damping /= 4
                if float(here.abs().max()) <= tol:
                    break
            else:
                damping *= 16
        return s

    def _linearized(self, s: Tensor) -> tuple[Tensor, Tensor]:
        """The residuals and, as one more, the price; with their derivative."""
        s = s.detach().requires_grad_()
        j, k_next = self._moved(s)
        residuals = self.run.problem.block_residuals(j, self.run.k, k_next)
        rows = [torch.autograd.grad(r, s, retain_graph=True)[0] for r in residuals]
        priced = _PRICE**0.5 * self.bias
        price = (priced @ s.detach()).reshape(1)
        return torch.cat([residuals.detach(), price]), torch.stack([*rows, priced])


_ONCE_TWICE_ONCE = torch.tensor([1.0, 2.0, 1.0], dtype=torch.float64)


def _loss(residuals: Tensor) -> float:
    return 0.5 * float(residuals.square().sum())


def _moments(out: Tensor, shift: Tensor | None) -> Tensor:
    """``⟨z²⟩``, ``⟨z b⟩`` and ``⟨b²⟩`` of ``out = z + b``."""
    out = out.to(torch.promote_types(out.dtype, torch.float32))
    square = out.square().mean()
    if shift is None:
        return torch.stack([square, 0 * square, 0 * square])
    b = shift.to(out.dtype)
    across = [d for d in range(-out.ndim, 0) if d != -b.ndim]
    with_out = (out.mean(across, keepdim=True) * b).mean()
    with_b = b.square().mean()
    return torch.stack([square - 2 * with_out + with_b, with_out - with_b, with_b])
