"""The built-in models by name, as a command line needs them."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from critinit.errors import CritinitError
from critinit.models._options import OptionError, suggestion
from critinit.models.bn_mlp import bn_mlp, ln_mlp
from critinit.models.mlp import mlp
from critinit.models.resmlp import resmlp, resmlp_b24, resmlp_s12, resmlp_s24, resmlp_s36
from critinit.models.vgg import (
    vgg,
    vgg11,
    vgg11_bn,
    vgg13,
    vgg13_bn,
    vgg16,
    vgg16_bn,
    vgg19,
    vgg19_bn,
)


class UnknownModelError(CritinitError):
    """There is no built-in model of this name."""


@dataclass(frozen=True)
class Entry:
    """A built-in model: its name, what it is in a few words, and the function that builds it."""

    name: str
    summary: str
    factory: Callable[..., nn.Module]

    @property
    def options(self) -> Mapping[str, inspect.Parameter]:
        """What `build` takes, each with its type and default."""
        return inspect.signature(self.factory, eval_str=True).parameters

    def build(self, **options: Any) -> nn.Module:
        """The model, freshly drawn."""
        self._check(options)
        return self.factory(**options)

    def input_shape(self, **options: Any) -> tuple[int, ...]:
        """The shape of one example for the model that `build` makes of the same options.

        >>> find("resmlp_s12").input_shape(), find("mlp").input_shape(inputs=64)
        ((3, 32, 32), (64,))
        """
        self._check(options)
        asked = {name: p.default for name, p in self.options.items()} | options
        if "image" in asked:
            return (asked["channels"], asked["image"], asked["image"])
        return (asked["inputs"],)

    def fitting(self, shape: Sequence[int]) -> dict[str, int]:
        """The options that make the model take examples of ``shape``, such as those of a data set.

        >>> find("mlp").fitting((3, 32, 32)), find("vgg19_bn").fitting((1, 64, 64))
        ({'inputs': 3072}, {'channels': 1, 'image': 64})
        """
        if "image" not in self.options:
            return {"inputs": math.prod(shape)}
        if len(shape) != 3 or shape[1] != shape[2]:
            raise OptionError(
                f"{self.name} takes square images, (channels, size, size), but the examples have "
                f"the shape {tuple(shape)}. Resize or crop them, or choose a model such as 'mlp'."
            )
        return {"channels": shape[0], "image": shape[1]}

    def _check(self, options: Mapping[str, Any]) -> None:
        for name in options:
            if name not in self.options:
                raise OptionError(
                    f"{self.name} has no option {name!r}. {suggestion(name, self.options)}"
                )


_ENTRIES = {
    entry.name: entry
    for entry in (
        Entry("mlp", "multilayer perceptron", mlp),
        Entry("bn_mlp", "residual perceptron, BatchNorm first", bn_mlp),
        Entry("ln_mlp", "residual perceptron, LayerNorm first", ln_mlp),
        Entry("resmlp", "ResMLP of any size", resmlp),
        Entry("resmlp_s12", "ResMLP-S12: 12 blocks, LayerScale 0.1", resmlp_s12),
        Entry("resmlp_s24", "ResMLP-S24: 24 blocks, LayerScale 1e-5", resmlp_s24),
        Entry("resmlp_s36", "ResMLP-S36: 36 blocks, LayerScale 1e-6", resmlp_s36),
        Entry(
            "resmlp_b24",
            "ResMLP-B24: 24 blocks of 768 channels, patches of 8",
            resmlp_b24,
        ),
        Entry("vgg", "VGG of any depth", vgg),
        Entry("vgg11", "VGG with 11 layers", vgg11),
        Entry("vgg13", "VGG with 13 layers", vgg13),
        Entry("vgg16", "VGG with 16 layers", vgg16),
        Entry("vgg19", "VGG with 19 layers", vgg19),
        Entry("vgg11_bn", "VGG with 11 layers and BatchNorm", vgg11_bn),
        Entry("vgg13_bn", "VGG with 13 layers and BatchNorm", vgg13_bn),
        Entry("vgg16_bn", "VGG with 16 layers and BatchNorm", vgg16_bn),
        Entry("vgg19_bn", "VGG with 19 layers and BatchNorm", vgg19_bn),
    )
}


def names() -> list[str]:
    """The names of all built-in models."""
    return list(_ENTRIES)


def find(name: str) -> Entry:
    """The built-in model of this name.

    >>> find("bn_mlp").summary
    'residual perceptron, BatchNorm first'
    """
    if name not in _ENTRIES:
        raise UnknownModelError(
            f"there is no built-in model {name!r}. {suggestion(name, _ENTRIES)}"
        )
    return _ENTRIES[name]


def build(name: str, **options: Any) -> nn.Module:
    """``find(name).build(**options)``.

    >>> build("mlp", width=8, depth=1, inputs=4, activation="tanh")
    Sequential(
      (0): Flatten(start_dim=1, end_dim=-1)
      (1): Linear(in_features=4, out_features=8, bias=True)
      (2): Tanh()
      (3): Linear(in_features=8, out_features=10, bias=True)
    )
    """
    return find(name).build(**options)
