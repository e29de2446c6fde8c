"""The built-in models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from torch import nn

from critinit.cli._settings import typed
from critinit.cli.errors import CommandError
from critinit.cli.sources._source import Example
from critinit.models import registry
from critinit.models._options import suggestion

_PREFIXES = ("timm", "torchvision", "hf")


class BuiltIn:
    """One of `critinit.models`."""

    adapts = True

    def __init__(self, name: str, settings: Mapping[str, str]) -> None:
        if name not in registry.names():
            raise CommandError(f"there is no model {name!r}. {_hint(name)}")
        self.entry = registry.find(name)
        self.options = typed(settings, self.entry.options, name)

    def example(self) -> Example:
        """An image, or a vector."""
        return Example(self.entry.input_shape(**self.options))

    def build(self, shape: Sequence[int]) -> nn.Module:
        """The model for examples of this shape; what ``--set`` says comes first."""
        fitting = {k: v for k, v in self.entry.fitting(shape).items() if k not in self.options}
        return self.entry.build(**fitting, **self.options)


def _hint(name: str) -> str:
    prefix, colon, rest = name.partition(":")
    if colon and (near := get_close_matches(prefix, _PREFIXES, 1, 0.5)):
        return f"Did you mean {near[0]}:{rest}?"
    if colon:
        return f"`{prefix}` is no source of models; write timm:NAME, torchvision:NAME or hf:NAME."
    if Path(name).suffix == ".py":
        return f"Of a file, name the function that makes the network, too: {name}:build."
    return f"{suggestion(name, registry.names())} `critinit models` lists and searches them all."
