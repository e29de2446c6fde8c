"""Models of timm, with random weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, cast

from torch import nn

from critinit._optional import optional
from critinit.cli._settings import guessed
from critinit.cli.sources._building import building, known
from critinit.cli.sources._source import Example


class Timm:
    """``timm:NAME``."""

    adapts = False

    def __init__(self, name: str, settings: Mapping[str, str]) -> None:
        known("timm", name, self.names())
        self.timm = _timm()
        self.name = name
        self.settings = guessed(settings)

    @staticmethod
    def names() -> list[str]:
        """All there are."""
        return list(_timm().list_models())

    @cached_property
    def _shape(self) -> tuple[int, ...]:
        """As its configuration says, but for what is set."""
        configured = self.timm.get_pretrained_cfg(self.name)
        channels, height, width = configured.input_size if configured else (3, 224, 224)
        size = self.settings.get("img_size", (height, width))
        sides = (size, size) if isinstance(size, int) else tuple(size)
        return (self.settings.get("in_chans", channels), *sides)

    def example(self) -> Example:
        """An image of the size that the model was made for."""
        return Example(self._shape)

    def build(self, shape: Sequence[int]) -> nn.Module:
        """The model; it is not told of the shape."""
        with building(f"timm:{self.name}"):
            made = self.timm.create_model(self.name, pretrained=False, **self.settings)
            return cast("nn.Module", made)


def _timm() -> Any:
    return optional("timm", "timm:NAME", "vision")
