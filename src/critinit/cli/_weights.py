"""Weights in files of the safetensors format, which hold numbers and nothing that is run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

from critinit._files import write_bytes
from critinit.cli.errors import CommandError


def save_weights(model: nn.Module, path: Path, metadata: Mapping[str, Any]) -> None:
    """Write the state of ``model``, so that ``model.load_state_dict(load_file(path))`` reads it.

    Tied weights are written under each of their names, which is what a strict load asks for.
    ``metadata`` is kept in the header, every value as JSON.
    """
    state = model.state_dict()
    odd = [name for name, value in state.items() if not isinstance(value, Tensor)]
    if odd:
        raise CommandError(
            f"--out {path}: the model keeps {odd[0]}, which is no tensor, in its state, and a "
            ".safetensors file holds tensors only."
        )
    tensors = {n: t.detach().cpu().contiguous().clone() for n, t in state.items()}
    header = {"format": "pt", **{key: json.dumps(value) for key, value in metadata.items()}}
    write_bytes(path, save(tensors, header))


def load_weights(model: nn.Module, path: Path) -> None:
    """Put the weights of a file into ``model``, all of them."""
    if not path.is_file():
        raise CommandError(f"--weights {path}: there is no such file.")
    try:
        state = load_file(path)
    except (SafetensorError, OSError) as error:
        raise CommandError(
            f"--weights {path} is no readable .safetensors file: {error}. Files that hold pickles "
            "(.pt, .pth) are not opened, since opening them can run anything."
        ) from error
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        wrong = " ".join(str(error).split())
        raise CommandError(
            f"--weights {path} does not fit this network: {wrong[:300]}. Give the --set, --size "
            "and --data that it was made with."
        ) from error
