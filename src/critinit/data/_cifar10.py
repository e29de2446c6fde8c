"""CIFAR-10 in its official binary layout: where it is kept, and how it is read.

The folder ``cifar-10-batches-bin`` holds five training files, ``test_batch.bin`` and the names of
the classes. Each image is 3,073 bytes: its label, then 32×32 red, green and blue values.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from critinit.data._examples import InMemory
from critinit.data.errors import CorruptDataError, DataError, MissingDataError

FOLDER = "cifar-10-batches-bin"
TRAIN = tuple(f"data_batch_{i}.bin" for i in range(1, 6))
TEST = ("test_batch.bin",)
NAMES_FILE = "batches.meta.txt"
CLASS_NAMES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)
SHAPE = (3, 32, 32)
PIXELS = 3 * 32 * 32


def cache_directory(cache: str | Path | None = None) -> Path:
    """Where data sets are kept.

    ``cache``, else the environment's ``CRITINIT_CACHE``, else ``critinit`` in ``XDG_CACHE_HOME``,
    else ``~/.cache/critinit``.
    """
    if cache is not None:
        return Path(cache).expanduser()
    if own := os.environ.get("CRITINIT_CACHE"):
        return Path(own).expanduser()
    shared = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (shared if shared.is_absolute() else Path.home() / ".cache") / "critinit"


def read(split: str, directory: Path | None = None) -> InMemory:
    """The images as bytes, N×3×32×32, from a cache directory or from the folder of the files."""
    folder = cache_directory(directory)
    if not (folder / TEST[0]).is_file():
        folder /= FOLDER
    paths = [folder / name for name in (TRAIN if split == "train" else TEST)]
    counts = [_count(path) for path in paths]
    images = np.empty((sum(counts), *SHAPE), np.uint8)
    labels = np.empty(sum(counts), np.int64)
    start = 0
    for path, count in zip(paths, counts, strict=True):
        part = slice(start, start + count)
        rows = _rows(path, count)
        images[part], labels[part] = rows[:, 1:].reshape(count, *SHAPE), rows[:, 0]
        start += count
    if labels.max() >= len(CLASS_NAMES):
        raise CorruptDataError(
            f"{folder} holds the label {labels.max()}, but classes are 0…9: remove the folder and "
            "run `critinit data cifar10`."
        )
    return InMemory(torch.from_numpy(images), torch.from_numpy(labels), CLASS_NAMES)


def _count(path: Path) -> int:
    if not path.is_file():
        raise MissingDataError(
            f"CIFAR-10 is not in {path.parent} (no {path.name}): run `critinit data cifar10`, "
            "which brings it."
        )
    count, rest = divmod(path.stat().st_size, 1 + PIXELS)
    if rest or not count:
        raise CorruptDataError(
            f"{path} is truncated or no CIFAR-10 file: its {path.stat().st_size} bytes are not a "
            f"multiple of {1 + PIXELS}. Run `critinit data cifar10`, which repairs it."
        )
    return count


def _rows(path: Path, count: int) -> NDArray[np.uint8]:
    try:
        return np.fromfile(path, np.uint8, count * (1 + PIXELS)).reshape(count, 1 + PIXELS)
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read: {error}.") from error
