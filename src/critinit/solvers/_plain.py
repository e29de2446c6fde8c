"""The exact J of a plain layer: a linear layer or convolution behind elementwise functions.

There the Jacobian is ``W diag(d)``, where ``d`` is the slope of what comes before the layer, and

``J = Σ_x Σ_i d_i(x)² Σ_k W_ki² / (|B| N_{l+1})``

takes no probe and no pass through ``W``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from critinit.apjn._estimator import size_of
from critinit.chain._walk import Tensors
from critinit.solvers._problem import sums_of_squares
from critinit.twin import LayerCall, layer_behind


@dataclass(frozen=True)
class PlainLayer:
    """A block that is known to be one, with ``√(Σ_k W_ki²)`` for every component of ``h``."""

    columns: Tensor

    @classmethod
    def found(cls, out: Tensors, h: Tensors, known: bool = False) -> Self | None:
        """The block that led from ``h`` to ``out``, if it is one; ``known`` if that was seen."""
        call = _last_call(out)
        if call is None or not (known or _is_plain(call.x, h)):
            return None
        return cls(call.column_norms())

    def norms(self, out: Tensors, h: Tensors, batch_size: int, graph: bool) -> Tensor:
        """What each example adds to J, as a table of one row; differentiable with ``graph``."""
        call = _last_call(out)
        assert call is not None
        slope = _slope(call.x, h[0], graph)
        lengths = self.columns.expand_as(call.x).reshape(slope.shape)
        squares = sums_of_squares([slope * lengths], batch_size, h).unsqueeze(0)
        table = squares * (squares.shape[1] / size_of(out))
        if call.a is None:
            return table
        return table * (call.a if graph else call.a.detach()).square()


def _last_call(out: Tensors) -> LayerCall | None:
    return layer_behind(out[0]) if len(out) == 1 else None


def _slope(x: Tensor, h: Tensor, graph: bool) -> Tensor:
    ones = torch.ones_like(x)
    return torch.autograd.grad(x, h, ones, retain_graph=True, create_graph=graph)[0]


def _is_plain(x: Tensor, h: Tensors) -> bool:
    return (
        len(h) == 1 and x.numel() == h[0].numel() and x.requires_grad and _is_elementwise(x, h[0])
    )


def _is_elementwise(x: Tensor, h: Tensor) -> bool:
    """Whether each component of ``x`` follows from the one of ``h`` at the same place.

    A weighted sum of the components of ``x`` tells: its slope is that of their sum, weighted.
    """
    weights = torch.arange(x.numel(), device=x.device).mul(0.618034).frac().add(0.5)
    weights = weights.to(x).view(x.shape)
    (weighted,) = torch.autograd.grad(x, h, weights, retain_graph=True)
    slope = _slope(x, h, graph=False)
    difference = (weighted - slope * weights.view(h.shape)).abs().max()
    return bool(difference <= 8 * torch.finfo(h.dtype).eps * slope.abs().max())
