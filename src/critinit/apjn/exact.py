"""The definition, one row of the Jacobian at a time: slow, and the reference for the rest."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from critinit.apjn._estimator import size_of, squared_norms
from critinit.apjn.vjp import gradients
from critinit.chain._walk import Tensors


@dataclass(frozen=True)
class Exact:
    """``J = Σ_{x,x'} Σ_{i,j} (∂h^{l+1}_j(x') / ∂h^l_i(x))² / (|B| N_{l+1})``.

    Costs one backward pass for every component of the output.
    """

    walks: int = 1

    def enter(self, h: Tensors) -> Tensors:
        """Start a new graph at ``h``."""
        return tuple(t.detach().requires_grad_() for t in h)

    def contributions(self, h: Tensors, out: Tensors, batch_size: int) -> Tensor:
        """One row: the squared norm of each example's columns of the Jacobian."""
        total = torch.zeros((), dtype=torch.float64, device=out[0].device)
        for tensor in out:
            for component in range(tensor.numel()):
                one = torch.zeros_like(tensor).flatten()
                one[component] = 1
                g = gradients((tensor,), h, (one.view_as(tensor),), last=False)
                total = total + squared_norms(g, batch_size)
        return (total * (total.numel() / size_of(out))).reshape(1, -1)
