"""Fashion-MNIST, and the IDX format it comes in.

An IDX file is two zero bytes, the type of its numbers (8 for bytes), the number of dimensions, each
dimension as a big-endian 32-bit number, and then the numbers in row-major order.
"""

from __future__ import annotations

import gzip
import math
import os
import zlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from critinit.data._examples import InMemory
from critinit.data.errors import CorruptDataError, MissingDataError

VARIABLE = "CRITINIT_FASHION_MNIST"
DEBIAN = Path("/usr/share/datasets/fashion-mnist")
CLASS_NAMES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)


def read(split: str, directory: Path | None = None) -> InMemory:
    """The images as bytes, N×1×28×28.

    They are looked for in ``directory``, else in the environment's ``CRITINIT_FASHION_MNIST``, else
    where Debian's package ``dataset-fashion-mnist`` puts them; compressed or not.
    """
    folder = directory or Path(os.environ.get(VARIABLE) or DEBIAN)
    prefix = "train" if split == "train" else "t10k"
    images = _idx(folder, f"{prefix}-images-idx3-ubyte", dimensions=3)
    labels = _idx(folder, f"{prefix}-labels-idx1-ubyte", dimensions=1).long()
    if len(images) != len(labels):
        raise CorruptDataError(
            f"{folder} holds {len(images)} images but {len(labels)} labels for {prefix}: put the "
            "files of one release there."
        )
    if len(labels) and int(labels.max()) >= len(CLASS_NAMES):
        raise CorruptDataError(f"{folder} holds the label {int(labels.max())}: classes are 0…9.")
    return InMemory(images.unsqueeze(1), labels, CLASS_NAMES)


def _idx(folder: Path, name: str, dimensions: int) -> Tensor:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return parse_idx(_contents(path), dimensions, path)
    raise MissingDataError(
        f"Fashion-MNIST is not in {folder} (no {name}): install Debian's package "
        f"dataset-fashion-mnist, or let {VARIABLE} name the folder that holds its IDX files."
    )


def _contents(path: Path) -> bytes:
    try:
        return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise CorruptDataError(f"{path} cannot be read: {error}.") from error


def parse_idx(data: bytes, dimensions: int, path: Path) -> Tensor:
    """The bytes of an IDX file as a tensor; ``path`` is for the error.

    >>> parse_idx(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]), 1, Path("labels"))
    tensor([7, 9], dtype=torch.uint8)
    """
    start = 4 + 4 * dimensions
    if data[:4] != bytes([0, 0, 8, dimensions]) or len(data) < start:
        raise CorruptDataError(f"{path} is not an IDX file of bytes with {dimensions} dimensions.")
    shape = tuple(int(n) for n in np.frombuffer(data[4:start], dtype=">u4"))
    if len(data) - start != math.prod(shape) or 0 in shape:
        raise CorruptDataError(
            f"{path} holds {len(data) - start} bytes where its header {shape} needs "
            f"{math.prod(shape)}: fetch it again."
        )
    return torch.from_numpy(np.frombuffer(data, np.uint8, offset=start).reshape(shape).copy())
