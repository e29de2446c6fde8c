"""Algorithm 1 on one ReLU network, for any number of learning rates and σ_w at once.

Without biases a ReLU network only rescales: with the weights ``a_l σ_w W_l`` each ``h^l`` is that
of the weights ``W_l``, times a positive number, as long as every multiplier is positive. So with
the probe ``v`` the estimate of J is

``Ĵ^{l,l+1} = (a_l σ_w)² g_l``, ``g_l = Σ_x Σ_i 1[h_i^l(x) > 0] (W_lᵀ v(x))_i² / (|B| N_{l+1})``,

where ``g_l`` knows nothing of learning rate, σ_w and step but the probe. What a multiplier does to
the J of later blocks is nothing: it does not move a unit across zero. So the gradient of the loss
is that of ``(a_l σ_w)² g_l`` alone, and a step takes a few operations on numbers.

A step that is too long can make a multiplier negative. Then ``h^l`` changes sign, and other units
are active in all blocks behind it. So there is one ``g_l`` for each combination of signs of the
multipliers before, ``2^{l−1}`` of them; all are computed: they share ``W_lᵀ v``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from critinit.figures.errors import FigureError

_Array = NDArray[np.float64]
_DEEPEST = 12  # 2^11 combinations of signs
_AT_ONCE = 32  # steps, for memory


@dataclass(frozen=True)
class Descent:
    """Where Algorithm 1 led, each (points × blocks): J, without the noise of a probe, and a."""

    apjn: _Array
    a: _Array


class ReluPlane:
    """What all points share: ``g_l`` of every step and combination of signs, and its mean.

    Args:
        weights: Of all linear layers, the first of which is not in the loss.
        x: The batch.
        steps: T.
        generator: Draws the Gaussian probes, one for each block and step, in the order in which
            `critinit.SGD` draws them.
    """

    def __init__(
        self, weights: Sequence[Tensor], x: Tensor, steps: int, generator: torch.Generator
    ) -> None:
        if len(weights) - 1 > _DEEPEST:
            raise FigureError(
                f"depth={len(weights) - 1}: each block doubles the combinations of signs to look "
                f"at. Use {_DEEPEST} at most."
            )
        self.steps = steps
        active = _active_units(weights, x)
        probed = _Probed(weights, len(x), generator)
        parts = [
            probed.sums(active, min(_AT_ONCE, steps - start)) for start in range(0, steps, _AT_ONCE)
        ]
        self.g = [np.concatenate(part) for part in zip(*parts, strict=True)]
        self.mean_g = probed.means(active)

    def descend(self, eta: _Array, sigma_w: _Array, losses: Sequence[str]) -> Descent:
        """``a_l(t+1) = a_l(t) − η ∂L/∂a_l`` from ``a = 1``; η, σ_w and loss of each point."""
        jll = np.array([loss == "jll" for loss in losses])
        a = np.ones((len(self.mean_g), *eta.shape))
        with np.errstate(all="ignore"):  # a point that diverges goes through infinity to NaN
            for step in range(self.steps):
                j = _apjn(a, sigma_w, [g[step] for g in self.g])
                by_log_j = np.where(jll, np.log(j), (j - 1) * j)
                a -= eta * by_log_j * 2 / a
            return Descent(_apjn(a, sigma_w, self.mean_g).T, a.T)


def _apjn(a: _Array, sigma_w: _Array, g: Sequence[_Array]) -> _Array:
    """J of each block, from its ``g`` for each combination of signs."""
    signs = np.zeros(sigma_w.shape, dtype=np.int64)
    j = np.empty_like(a)
    for block, own in enumerate(a):
        j[block] = (own * sigma_w) ** 2 * g[block][signs]
        signs = 2 * signs + (own < 0)
    return j


def _active_units(weights: Sequence[Tensor], x: Tensor) -> list[Tensor]:
    """For each block in the loss: which units are active, combinations × (examples · units)."""
    h = (x @ weights[0].T).unsqueeze(0)
    active = []
    for weight in weights[1:]:
        active.append((h > 0).flatten(1))
        h = h.relu() @ weight.T
        h = torch.stack([h, -h], dim=1).flatten(0, 1)
    return active


class _Probed:
    """Draws probes and pulls them back through the weights."""

    def __init__(self, weights: Sequence[Tensor], batch: int, generator: torch.Generator) -> None:
        self.weights = weights
        self.batch = batch
        self.generator = generator

    def sums(self, active: Sequence[Tensor], steps: int) -> list[_Array]:
        """``g_l`` of each block in the loss, for the next steps: steps × combinations."""
        squares: list[list[Tensor]] = [[] for _ in active]
        for _ in range(steps):
            for block, weight in enumerate(self.weights):
                v = torch.randn(self.batch, len(weight), generator=self.generator)
                if block:
                    squares[block - 1].append((v @ weight).square_().flatten())
        return [
            (torch.stack(own) @ units.T.float()).double().numpy() / (self.batch * len(weight))
            for own, units, weight in zip(squares, active, self.weights[1:], strict=True)
        ]

    def means(self, active: Sequence[Tensor]) -> list[_Array]:
        """``g_l`` over all probes: ``E (W_lᵀ v)_i² = Σ_k W_ki²``."""
        return [
            (units.float() @ weight.square().sum(0).repeat(self.batch)).double().numpy()
            / (self.batch * len(weight))
            for units, weight in zip(active, self.weights[1:], strict=True)
        ]
