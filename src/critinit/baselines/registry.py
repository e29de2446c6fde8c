"""The initializations by name, as a command line needs them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from critinit.base import Base, reset_
from critinit.baselines._layers import draw_orthogonal
from critinit.baselines.autoinit import autoinit_
from critinit.baselines.lsuv import lsuv_
from critinit.baselines.original import original_
from critinit.baselines.residual import fixup_, skipinit_
from critinit.chain._calls import same_module
from critinit.errors import CritinitError
from critinit.models._options import suggestion

Initialize = Callable[[nn.Module, object, torch.Generator], object]


class UnknownBaselineError(CritinitError):
    """There is no initialization of this name."""


@dataclass(frozen=True)
class Baseline:
    """An initialization: its name, what it does in a few words, and the function that does it."""

    name: str
    summary: str
    function: Initialize

    def __call__(
        self, model: nn.Module, batch: object, generator: torch.Generator | None = None
    ) -> None:
        """Initialize ``model`` in place, by the first of ``batch`` where it takes one.

        The mode, buffers and gradients of the model and all global random states stay as they are,
        but for what parametrizations such as ``spectral_norm`` keep of a weight in buffers. Any
        exception, Ctrl-C included, leaves the model as it was.

        Args:
            model: In the mode it will be used in.
            batch: As for `critinit.measure`.
            generator: The only source of randomness; by default a fresh one with seed 0.
        """
        self.function(model, batch, generator or torch.Generator().manual_seed(0))


def _reset(
    base: Base, bias_std: float | None, model: nn.Module, _: object, generator: torch.Generator
) -> None:
    reset_(model, base, bias_std=bias_std, ones=base != "default", generator=generator)


def _kaiming_fan_out(model: nn.Module, _: object, generator: torch.Generator) -> None:
    modules = dict(same_module(model).named_modules())

    def draw(name: str, weight: Tensor, generator: torch.Generator) -> None:
        std = _fan_out_std(modules[name.rpartition(".")[0]], weight)
        weight.normal_(std=std, generator=generator)

    reset_(model, draw, bias_std=0, generator=generator)


def _fan_out_std(module: nn.Module, weight: Tensor) -> float:
    """``√(2/fan_out)``; fan_out is how many outputs each input has a part in, but for the border.

    An embedding is not behind a layer: N(0, 1), as by the other draws.
    """
    if isinstance(module, nn.Embedding | nn.EmbeddingBag):
        return 1.0
    if isinstance(module, _ConvTransposeNd):
        return math.sqrt(2 / weight[0].numel())
    outputs = weight[:, 0].numel()
    if isinstance(module, _ConvNd):
        outputs = outputs // module.groups
    return math.sqrt(2 / outputs)


def _orthogonal(gain: float, model: nn.Module, _: object, generator: torch.Generator) -> None:
    draw_orthogonal(same_module(model), gain, 0.0, generator)


_BASELINES = {
    baseline.name: baseline
    for baseline in (
        Baseline("autoinit", "orthogonal, tuned to criticality, biases as needed", autoinit_),
        Baseline("default", "each layer's own reset_parameters", partial(_reset, "default", None)),
        Baseline("kaiming", "normal, variance 2/fan_in", partial(_reset, "kaiming", 0.0)),
        Baseline("kaiming-fan-out", "normal, variance 2/fan_out", _kaiming_fan_out),
        Baseline("orthogonal", "orthogonal, gain 1", partial(_orthogonal, 1.0)),
        Baseline("orthogonal-relu", "orthogonal, gain √2", partial(_orthogonal, math.sqrt(2))),
        Baseline("original", "as published: ResMLP, and torchvision's VGG", original_),
        Baseline("lsuv", "orthogonal, unit variance behind each layer", lsuv_),
        Baseline("fixup", "residual networks without normalization", fixup_),
        Baseline("skipinit", "residual branches times zero (SkipInit, ReZero)", skipinit_),
    )
}


def names() -> list[str]:
    """The names of all initializations."""
    return list(_BASELINES)


def find(name: str) -> Baseline:
    """The initialization of this name.

    >>> find("lsuv").summary
    'orthogonal, unit variance behind each layer'
    """
    if name not in _BASELINES:
        raise UnknownBaselineError(
            f"there is no initialization {name!r}. {suggestion(name, _BASELINES)}"
        )
    return _BASELINES[name]
