"""Models of torchvision, with random weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Any, cast

from torch import nn

from critinit._optional import optional
from critinit.cli._settings import guessed
from critinit.cli.sources._building import building, known
from critinit.cli.sources._source import Example

_SIDES = {"inception_v3": 299}
_USUAL = 224


class TorchVision:
    """``torchvision:NAME``."""

    adapts = False

    def __init__(self, name: str, settings: Mapping[str, str]) -> None:
        known("torchvision", name, self.names())
        self.models = _models()
        self.name = name
        self.settings = guessed(settings)

    @staticmethod
    def names() -> list[str]:
        """All there are."""
        return list(_models().list_models())

    def example(self) -> Example:
        """An image of the size that the model was made for."""
        side = self.settings.get("image_size", _SIDES.get(self.name, _USUAL))
        return Example((3, side, side))

    def build(self, shape: Sequence[int]) -> nn.Module:
        """The model; it is not told of the shape."""
        taken = signature(self.models.get_model_builder(self.name)).parameters
        # Some builders would download a trained backbone, others warn that they draw slowly.
        own = {"weights": None, "weights_backbone": None, "init_weights": True}
        options = {k: v for k, v in own.items() if k in taken} | self.settings
        with building(f"torchvision:{self.name}"):
            return cast("nn.Module", self.models.get_model(self.name, **options))


def _models() -> Any:
    return optional("torchvision.models", "torchvision:NAME", "vision")
