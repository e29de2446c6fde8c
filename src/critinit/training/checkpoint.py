"""Where a training is, on disk: two safetensors files, and no pickled code.

``weights`` is what ``model.load_state_dict`` takes; ``progress`` holds the optimizer's tensors, and
everything that is no tensor as JSON in its header. A small file that names both is renamed into
place last, so whoever kills the training leaves this checkpoint or the one before.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from critinit._files import write_bytes, write_text
from critinit.keep import Keep, keep_multipliers
from critinit.training.errors import TrainingError

_CURRENT = "checkpoint.json"
_MULTIPLIER = "_multiplier"
_PARTS = ("state", "param_groups")


@dataclass
class Progress:
    """How far a training is.

    Attributes:
        epoch: The present one, from 0.
        step: Batches of it that are done.
        sums: Of loss, right answers and images over these.
        rows: The metrics of all finished epochs.
    """

    epoch: int = 0
    step: int = 0
    sums: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    rows: list[dict[str, float]] = field(default_factory=list)


def save(
    folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, progress: Progress, extra: Any
) -> None:
    """Write a checkpoint; then remove the one before."""
    from safetensors.torch import save as to_bytes

    stem = f"checkpoint-{progress.epoch:04d}-{progress.step:06d}"
    names = {"weights": f"{stem}.safetensors", "progress": f"{stem}.progress.safetensors"}
    trained = [name for name, _ in model.named_parameters()]
    entries = list(_entries(optimizer.state_dict()))
    tensors = {f"{part}.{i}.{k}": v for part, i, k, v in entries if isinstance(v, Tensor)}
    header = {
        "progress": asdict(progress),
        "scalars": [entry for entry in entries if not isinstance(entry[-1], Tensor)],
        "trained": trained,
        "extra": extra,
    }
    metadata = {key: json.dumps(value) for key, value in header.items()}
    write_bytes(folder / names["weights"], to_bytes(_plain(model.state_dict())))
    write_bytes(folder / names["progress"], to_bytes(_plain(tensors), metadata))
    write_text(folder / _CURRENT, json.dumps(names) + "\n")
    for old in folder.glob("checkpoint-*.safetensors"):
        if old.name not in names.values():
            old.unlink(missing_ok=True)


def save_model(path: Path, model: nn.Module) -> None:
    """Write the weights only."""
    from safetensors.torch import save as to_bytes

    write_bytes(path, to_bytes(_plain(model.state_dict())))


def exists(folder: Path) -> bool:
    """Whether there is one to go on from."""
    return (folder / _CURRENT).is_file()


def load_weights(folder: Path, model: nn.Module) -> None:
    """Put the weights of a checkpoint into a freshly built ``model``."""
    from safetensors.torch import load_file

    _, header = _read(folder)
    names = json.loads((folder / _CURRENT).read_text())
    state = load_file(folder / names["weights"])
    trained = set(header["trained"])
    ways: tuple[Keep, ...] = ("frozen", "trainable")
    for how in ways:
        kept = {
            name.removesuffix(_MULTIPLIER): 1.0
            for name in state.keys() - model.state_dict().keys()
            if name.endswith(_MULTIPLIER) and (name in trained) == (how == "trainable")
        }
        if kept:
            keep_multipliers(model, kept, how)
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        raise TrainingError(
            f"the checkpoint in {folder} is of another model: {' '.join(str(error).split())[:300]}"
        ) from error


def load_progress(
    folder: Path, optimizer: torch.optim.Optimizer, device: torch.device
) -> tuple[Progress, Any]:
    """Put the optimizer where it was; how far the training is, and what was saved besides."""
    tensors, header = _read(folder)
    parts: dict[str, dict[int, dict[str, Any]]] = {part: {} for part in _PARTS}
    for name, value in tensors.items():
        part, index, key = name.split(".", 2)
        parts[part].setdefault(int(index), {})[key] = value.to(device)
    for part, index, key, value in header["scalars"]:
        parts[part].setdefault(index, {})[key] = value
    state, groups = (parts[part] for part in _PARTS)
    try:
        optimizer.load_state_dict({"state": state, "param_groups": list(groups.values())})
    except ValueError as error:
        raise TrainingError(f"the checkpoint in {folder} is of another model: {error}") from error
    return Progress(**header["progress"]), header["extra"]


def _read(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    from safetensors import SafetensorError, safe_open

    try:
        names = json.loads((folder / _CURRENT).read_text())
        with safe_open(folder / names["progress"], "pt") as file:
            header = {key: json.loads(value) for key, value in file.metadata().items()}
            return {key: file.get_tensor(key) for key in file.keys()}, header  # noqa: SIM118
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise TrainingError(
            f"the checkpoint in {folder} cannot be read: {error}. Remove the folder to start anew."
        ) from error


def _entries(state: Mapping[str, Any]) -> Iterator[tuple[str, int, str, Any]]:
    """Everything an optimizer knows, tensor or not, with its place."""
    for part in _PARTS:
        entries = state[part]
        for index, entry in entries.items() if part == "state" else enumerate(entries):
            for key, value in entry.items():
                yield part, index, key, value


def _plain(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies of their own, contiguous, on the CPU, as the format wants them."""
    return {n: t.detach().to("cpu", copy=True).contiguous() for n, t in tensors.items()}
