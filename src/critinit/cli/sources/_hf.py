"""Models of Hugging Face transformers, built from a configuration, with random weights."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from torch import nn

from critinit._optional import optional
from critinit.cli._settings import guessed
from critinit.cli.errors import CommandError
from critinit.cli.sources._building import building, known
from critinit.cli.sources._source import Example

_TEXT_LENGTH = 64


class HuggingFace:
    """``hf:NAME`` of a kind of model, in its default size, or ``hf:config.json``.

    Of a configuration that names its class (``architectures``) this class is built, else the bare
    model. Nothing is downloaded.
    """

    adapts = False

    def __init__(self, name: str, settings: Mapping[str, str]) -> None:
        self.transformers = _transformers()
        self.name = name
        self.settings = guessed(settings)

    @staticmethod
    def names() -> list[str]:
        """All kinds of models that have a configuration."""
        return sorted(_transformers().CONFIG_MAPPING.keys())

    @cached_property
    def config(self) -> Any:
        """The configuration, with the settings in it."""
        mapping = self.transformers.CONFIG_MAPPING
        path = Path(self.name).expanduser()
        values: dict[str, Any] = {}
        kind = self.name
        if path.suffix == ".json" or path.is_file():
            values = _read(path)
            kind = values.pop("model_type", "")
        known("hf", kind, self.names())
        with building(f"hf:{self.name}"):
            default = mapping[kind]()
            wrong = [k for k in self.settings if not hasattr(default, k)]
            if wrong:
                raise CommandError(f"--set {wrong[0]}: {kind} has no such configuration.")
            return mapping[kind].from_dict({**values, **self.settings})

    @cached_property
    def model_class(self) -> Any:
        """What the configuration names, or the bare model."""
        names = self.config.architectures or []
        named = [getattr(self.transformers, n) for n in names if hasattr(self.transformers, n)]
        if named:
            return named[0]
        try:
            return self.transformers.AutoModel._model_mapping[type(self.config)]
        except KeyError:
            raise CommandError(
                f"hf:{self.name} has no bare model: name its class, --set architectures=[...]."
            ) from None

    def example(self) -> Example:
        """What the model's main input is."""
        text = self.config.get_text_config()
        main = self.model_class.main_input_name
        if main == "pixel_values":
            sides = self.config.image_size
            sides = (sides, sides) if isinstance(sides, int) else tuple(sides)
            return Example((getattr(self.config, "num_channels", 3), *sides), argument=main)
        if main == "input_ids":
            most = getattr(text, "max_position_embeddings", None) or _TEXT_LENGTH
            also = ("decoder_input_ids",) if self.config.is_encoder_decoder else ()
            return Example((min(_TEXT_LENGTH, most),), text.vocab_size, main, also)
        raise CommandError(
            f"hf:{self.name} takes {main}, which critinit cannot make. Build it in a file of "
            "yours, with whatever it needs around it: path/to/file.py:factory."
        )

    def build(self, shape: Sequence[int]) -> nn.Module:
        """The model; it is not told of the shape."""
        with building(f"hf:{self.name}"):
            return cast("nn.Module", self.model_class(self.config))


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CommandError(f"{path} is no readable configuration: {error}.") from error
    if not (isinstance(found, dict) and isinstance(found.get("model_type"), str)):
        raise CommandError(f'{path} has no "model_type", which says what kind of model it is.')
    return found


def _transformers() -> Any:
    os.environ["HF_HUB_OFFLINE"] = "1"
    found = optional("transformers", "hf:NAME", "hf")
    found.logging.set_verbosity_error()  # its advice is about trained models
    return found
