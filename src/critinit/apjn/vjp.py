"""The paper's estimator: vector-Jacobian products with random vectors (eq. j_est)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from critinit.apjn._estimator import size_of, squared_norms
from critinit.apjn.probes import Probes
from critinit.chain._walk import Tensors
from critinit.errors import NotDifferentiableError


def gradients(out: Tensors, h: Tensors, v: Tensors, *, last: bool = True) -> Tensors:
    """``vᵀ ∂out/∂h``, zeros where ``out`` does not depend on a tensor of ``h``."""
    try:
        found = torch.autograd.grad(out, h, v, retain_graph=not last, allow_unused=True)
    except RuntimeError as error:
        raise NotDifferentiableError(f"its derivative cannot be computed: {error}") from error
    if all(g is None for g in found):
        raise NotDifferentiableError(
            "no derivative leads through it (a quantised layer, or an operation on detached data?)"
        )
    return tuple(torch.zeros_like(t) if g is None else g for g, t in zip(found, h, strict=True))


@dataclass(frozen=True)
class VJP:
    """``Ĵ = ‖vᵀ ∂h^{l+1}/∂h^l‖² / (|B| N_{l+1})``, averaged over probes ``v``.

    Unbiased: ``E ‖vᵀA‖² = tr(Aᵀ E[v vᵀ] A) = ‖A‖²_F``. One backward pass through the block and no
    weight gradients; the whole batch shares one probe, so that derivatives across examples
    (BatchNorm) are included.
    """

    probes: Probes
    walks: int = 1

    def enter(self, h: Tensors) -> Tensors:
        """Start a new graph at ``h``."""
        return tuple(t.detach().requires_grad_() for t in h)

    def contributions(self, h: Tensors, out: Tensors, batch_size: int) -> Tensor:
        """A row for each probe: the squared norm of each example's share of the product."""
        rows = []
        for probe in range(self.probes.count):
            v = self.probes.like(out)
            g = gradients(out, h, v, last=probe == self.probes.count - 1)
            rows.append(squared_norms(g, batch_size))
        table = torch.stack(rows)
        return table * (table.shape[1] / size_of(out))
