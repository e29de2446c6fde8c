"""Forward mode: Jacobian-vector products, without any autograd graph."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd import forward_ad

from critinit.apjn._estimator import size_of, squared_norms
from critinit.apjn.probes import Probes
from critinit.chain._walk import Tensors


@dataclass(frozen=True)
class JVP:
    """``Ĵ = ‖∂h^{l+1}/∂h^l u‖² / (|B| N_{l+1})``, averaged over probes ``u``.

    Unbiased for the same reason as the VJP. Each probe is one run of the model, which carries the
    tangents along; nothing is kept for a backward pass. Only first derivatives are taken: through
    a JVP, torch's backward of normalization layers is wrong.
    """

    probes: Probes

    @property
    def walks(self) -> int:
        """A run of the model for each probe."""
        return self.probes.count

    def enter(self, h: Tensors) -> Tensors:
        """Send a probe along with ``h`` as its tangent."""
        u = self.probes.like(h)
        with warnings.catch_warnings():
            # torch loads its forward formulas here, by a function it deprecates itself
            warnings.simplefilter("ignore", FutureWarning)
            return tuple(forward_ad.make_dual(_primal(t), v) for t, v in zip(h, u, strict=True))

    def contributions(self, h: Tensors, out: Tensors, batch_size: int) -> Tensor:
        """One row: the squared norm of each example's tangent."""
        tangents = tuple(_tangent(t) for t in out)
        row = squared_norms(tangents, batch_size)
        return (row * (row.numel() / size_of(out))).reshape(1, -1)


def _primal(tensor: Tensor) -> Tensor:
    primal: Tensor = forward_ad.unpack_dual(tensor).primal
    return primal.detach()


def _tangent(tensor: Tensor) -> Tensor:
    tangent = forward_ad.unpack_dual(tensor).tangent
    return torch.zeros_like(tensor) if tangent is None else tangent
