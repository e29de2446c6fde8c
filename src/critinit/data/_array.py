"""Arrays in NumPy's own format, ``.npy``, without the pickles it may hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from critinit.data._examples import InMemory
from critinit.data.errors import CorruptDataError, DataError, MissingDataError

_COLOURS = (1, 3, 4)


def read(path: Path) -> InMemory:
    """Images N×C×H×W or grey N×H×W, or vectors N×D: bytes as bytes, all else as float32."""
    array = _array(path)
    if array.ndim not in (2, 3, 4) or 0 in array.shape:
        raise DataError(
            f"{path} has shape {array.shape}: images N×C×H×W, grey images N×H×W or vectors N×D, "
            "none of them empty, can be read."
        )
    if array.ndim == 4 and array.shape[3] in _COLOURS and array.shape[1] not in _COLOURS:
        raise DataError(
            f"{path} has shape {array.shape}, with channels last: save it with channels second, "
            "`array.transpose(0, 3, 1, 2)`."
        )
    if array.dtype != np.uint8:
        with np.errstate(over="ignore"):  # what is too large for float32 is refused below
            array = array.astype(np.float32)
        if not np.isfinite(array).all():
            raise DataError(f"{path} holds NaN or infinity: mend or leave out those examples.")
    images = torch.from_numpy(np.array(array, order="C"))
    return InMemory(images.unsqueeze(1) if images.ndim == 3 else images)


def _array(path: Path) -> NDArray[np.generic]:
    if not path.is_file():
        raise MissingDataError(f"There is no file {path}: check the path.")
    try:
        with path.open("rb") as file:
            array = np.lib.format.read_array(file, allow_pickle=False)
    except MemoryError as error:
        raise DataError(f"{path} does not fit into memory: {error}. Save a part of it.") from error
    except (OSError, ValueError, EOFError) as error:
        raise CorruptDataError(f"{path} is no readable .npy array: {error}.") from error
    if array.dtype.kind not in "buif":
        raise DataError(f"{path} holds {array.dtype}: only real numbers can be read.")
    return np.asarray(array)
