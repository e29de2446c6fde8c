"""Where networks come from: one file each."""

from __future__ import annotations

from critinit.cli.errors import CommandError
from critinit.cli.sources._builtin import BuiltIn
from critinit.cli.sources._file import OwnFile, is_file
from critinit.cli.sources._hf import HuggingFace
from critinit.cli.sources._source import Example, Family, Source
from critinit.cli.sources._timm import Timm
from critinit.cli.sources._torchvision import TorchVision

__all__ = ["FAMILIES", "Example", "Source", "find", "is_file"]

FAMILIES: dict[str, type[Family]] = {"timm": Timm, "torchvision": TorchVision, "hf": HuggingFace}


def find(model: str, settings: dict[str, str]) -> Source:
    """What ``model`` names, with the arguments of ``--set``."""
    family, colon, name = model.partition(":")
    if colon and family in FAMILIES:
        if not name:
            raise CommandError(
                f"{model} needs a name behind it: `critinit models {model}` lists them."
            )
        return FAMILIES[family](name, settings)
    if is_file(model):
        return OwnFile(model, settings)
    return BuiltIn(model, settings)
