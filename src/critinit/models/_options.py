"""What may be asked of a model, and the refusal of what may not."""

from __future__ import annotations

import copy
import difflib
import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from critinit.errors import CritinitError

SMALL_IMAGE = 112  # pixels: images below get what is usual for CIFAR rather than ImageNet

Activation = str | nn.Module | Callable[[], nn.Module]


class OptionError(CritinitError):
    """A model was asked for with an option that does not exist, or with a value it cannot have."""


class Erf(nn.Module):
    """``erf(h)``, which torch has as a function only."""

    def forward(self, h: Tensor) -> Tensor:
        """Apply it to each element."""
        return torch.erf(h)


class Sin(nn.Module):
    """``sin(h)``, which torch has as a function only."""

    def forward(self, h: Tensor) -> Tensor:
        """Apply it to each element."""
        return torch.sin(h)


ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "linear": nn.Identity,
    "relu": nn.ReLU,
    "leaky_relu": nn.LeakyReLU,
    "elu": nn.ELU,
    "selu": nn.SELU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "softplus": nn.Softplus,
    "sigmoid": nn.Sigmoid,
    "tanh": nn.Tanh,
    "erf": Erf,
    "sin": Sin,
}


def activation_layer(activation: Activation) -> nn.Module:
    """A fresh layer: of a name, of a class or function without arguments, or a copy of a layer.

    >>> activation_layer("gelu"), activation_layer(nn.Tanh), activation_layer(nn.LeakyReLU(0.2))
    (GELU(approximate='none'), Tanh(), LeakyReLU(negative_slope=0.2))
    """
    if isinstance(activation, nn.Module):
        return copy.deepcopy(activation)
    if isinstance(activation, str):
        if activation.lower() not in ACTIVATIONS:
            raise OptionError(
                f"activation={activation!r} is unknown. {suggestion(activation, ACTIVATIONS)}"
            )
        return ACTIVATIONS[activation.lower()]()
    try:
        layer = activation()
    except TypeError as error:
        raise OptionError(
            f"activation={activation!r} cannot be called without arguments. Give a layer or its "
            "class, such as torch.nn.GELU, or its name."
        ) from error
    if not isinstance(layer, nn.Module):
        raise OptionError(f"activation={activation!r} makes a {type(layer).__name__}, no layer.")
    return layer


def check_counts(**counts: int) -> None:
    """Refuse what is not a whole number from 1 up."""
    for name, value in counts.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise OptionError(f"{name}={value!r}: give a whole number from 1 up.")


def check_numbers(**values: float) -> None:
    """Refuse what is not a finite number."""
    for name, value in values.items():
        if not isinstance(value, int | float) or not math.isfinite(value):
            raise OptionError(f"{name}={value!r}: give a finite number.")


def suggestion(given: str, known: Iterable[str]) -> str:
    """What was probably meant, or else everything there is."""
    known = list(known)
    near = difflib.get_close_matches(given.lower(), known, n=3)
    if near:
        return f"Did you mean {' or '.join(map(repr, near))}?"
    return f"There are {', '.join(known)}."
