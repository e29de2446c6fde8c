"""AutoInit from a fresh draw whose bias variance is found by a look at the network as a whole."""

from __future__ import annotations

import math

import torch
from torch import nn

from critinit._state import all_or_nothing
from critinit.baselines._layers import draw_orthogonal
from critinit.chain._calls import same_module
from critinit.errors import InputError
from critinit.losses import JKL
from critinit.result import Result
from critinit.tuning import tune_

_ROOT_TWO = math.sqrt(2)
DRAWS = ((1.0, 0.02), (1.0, 0.1), (_ROOT_TWO, 0.4), (2.0, 0.8))
_TOLERATED = math.log(10)
_LARGEST_HEAD = 2.0  # K of the logits, in units of K before


def autoinit_(
    model: nn.Module,
    batch: object,
    generator: torch.Generator | None = None,
    *,
    draws: tuple[tuple[float, float], ...] = DRAWS,
) -> Result:
    """Draw the weights, tune them, and draw again with larger biases where J does not add up.

    J of each block is 1 on *average* over the examples. Where the examples differ in size and the
    activation treats large ones otherwise than small ones (GELU, SiLU), the same examples are
    amplified in block after block: every J is 1, and the Jacobian of the whole network explodes.
    Biases even the examples out, but they make them similar to each other, too, which costs other
    activations (tanh) accuracy. So biases are as small as will do: that of the first of ``draws``
    with which the Jacobian of the whole network is the product of its blocks' J, within a factor of
    10; else the one that comes nearest.

    Weights are orthogonal, LayerScale is one, and the loss is ``JKL(0.05)`` without the input
    block. That keeps its draw: with larger biases goes a larger gain, so that K is larger from the
    start. The output block keeps its draw, too, where J = 1 there would more than double K: behind
    an average pool it takes huge weights, and the logits are as huge.

    Args:
        model: In the mode it will be used in.
        batch: As for `critinit.measure`; of several the first judges.
        generator: The only source of randomness; by default a fresh one with seed 0.
        draws: To try in turn: the gain of the weights and the standard deviation of the biases.

    >>> from critinit.models import mlp
    >>> result = autoinit_(mlp(64, 8, inputs=32, activation="gelu"), torch.randn(64, 32))
    >>> result.after.is_critical()
    True
    """
    module = same_module(model)
    generator = generator or torch.Generator().manual_seed(0)
    if not draws:
        raise InputError("draws is empty: give at least one pair of gain and bias_std.")
    best: tuple[float, Result, list[torch.Tensor]] | None = None
    output = True
    with all_or_nothing(module):
        for gain, bias_std in draws:
            result = _tuned(module, batch, gain, bias_std, output, generator)
            if output and float(result.after.kernel_ratio[-1]) > _LARGEST_HEAD:
                output = False
                result = _tuned(module, batch, gain, bias_std, output, generator)
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


def _tuned(
    model: nn.Module,
    batch: object,
    gain: float,
    bias_std: float,
    output: bool,
    generator: torch.Generator,
) -> Result:
    draw_orthogonal(model, gain, bias_std, generator)
    loss = JKL(input=False, output=output)
    return tune_(model, batch, loss, scale=_is_trained, generator=generator)


def _is_trained(_: str, parameter: torch.Tensor) -> bool:
    return parameter.requires_grad


def _disagreement(result: Result) -> float:
    """By how much the Jacobian of the whole network is off the product, as a logarithm."""
    ratio = result.after.factorization().ratio
    return abs(math.log(ratio)) if ratio > 0 else math.inf
