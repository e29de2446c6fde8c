"""AutoInit from a fresh draw whose bias variance is found by a look at the network as a whole."""

from __future__ import annotations

import math

import torch
from torch import nn

from critinit.base import all_or_nothing
from critinit.baselines._layers import draw_orthogonal
from critinit.chain._calls import same_module
from critinit.losses import JKL
from critinit.result import Result
from critinit.tuning import tune_

BIASES = (0.02, 0.1, 0.4, 0.8)
_TOLERATED = math.log(10)


def autoinit_(
    model: nn.Module,
    batch: object,
    generator: torch.Generator | None = None,
    *,
    biases: tuple[float, ...] = BIASES,
) -> Result:
    """Draw the weights, tune them, and draw again with larger biases where J does not add up.

    J of each block is 1 on *average* over the examples. Where the examples differ in size and the
    activation treats large ones otherwise than small ones (GELU, SiLU), the same examples are
    amplified in block after block: every J is 1, and the Jacobian of the whole network explodes.
    Biases even the examples out, but they make them similar to each other, too, which costs other
    activations (tanh) accuracy. So biases are as small as will do: the first of ``biases`` with
    which the Jacobian of the whole network is the product of its blocks' J, within a factor of 10;
    else the one that comes nearest.

    Weights are orthogonal with gain √2, LayerScale is one, and the loss is ``JKL(0.05)`` without
    the input block, which keeps its draw.

    Args:
        model: In the mode it will be used in.
        batch: As for `critinit.measure`; of several the first judges.
        generator: The only source of randomness; by default a fresh one with seed 0.
        biases: Standard deviations of the biases to try.

    >>> from critinit.models import mlp
    >>> result = autoinit_(mlp(64, 8, inputs=32, activation="gelu"), torch.randn(64, 32))
    >>> result.after.is_critical()
    True
    """
    module = same_module(model)
    generator = generator or torch.Generator().manual_seed(0)
    best: tuple[float, Result, list[torch.Tensor]] | None = None
    with all_or_nothing(module):
        for bias_std in biases:
            result = _tuned(module, batch, bias_std, generator)
            off = _disagreement(result)
            if best is None or off < best[0]:
                best = off, result, [p.detach().clone() for p in module.parameters()]
            if off <= _TOLERATED:
                break
        assert best is not None
        with torch.no_grad():
            for parameter, value in zip(module.parameters(), best[2], strict=True):
                parameter.copy_(value)
    return best[1]


def _tuned(model: nn.Module, batch: object, bias_std: float, generator: torch.Generator) -> Result:
    draw_orthogonal(model, math.sqrt(2), bias_std, generator)
    return tune_(model, batch, JKL(input=False), scale=_is_trained, generator=generator)


def _is_trained(_: str, parameter: torch.Tensor) -> bool:
    return parameter.requires_grad


def _disagreement(result: Result) -> float:
    """By how much the Jacobian of the whole network is off the product, as a logarithm."""
    ratio = result.after.factorization().ratio
    return abs(math.log(ratio)) if ratio > 0 else math.inf
