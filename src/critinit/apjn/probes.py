"""Random vectors with mean zero and covariance one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from critinit.chain._walk import Tensors

Noise = Literal["gaussian", "rademacher"]


@dataclass(frozen=True)
class Probes:
    """``count`` probes, drawn from ``generator`` alone.

    Any noise with ``E[v vᵀ] = 1`` makes the estimators unbiased; signs (``rademacher``) have the
    smaller variance.

    >>> g = torch.Generator().manual_seed(0)
    >>> Probes(1, g, "rademacher").like((torch.zeros(4),))[0].abs()
    tensor([1., 1., 1., 1.])
    """

    count: int
    generator: torch.Generator
    noise: Noise = "gaussian"

    def like(self, tensors: Tensors) -> Tensors:
        """One probe in the shape of a boundary."""
        return tuple(self._draw(t) for t in tensors)

    def _draw(self, like: Tensor) -> Tensor:
        device = self.generator.device
        if self.noise == "gaussian":
            v = torch.randn(like.shape, generator=self.generator, device=device)
        else:
            v = torch.randint(2, like.shape, generator=self.generator, device=device) * 2.0 - 1.0
        return v.to(like)
