"""NumPy's files, and what is refused of them."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from miniature import saved

from critinit.data import CorruptDataError, DataError, load


@pytest.mark.parametrize(
    ("array", "shape", "dtype"),
    [
        (np.zeros((6, 3, 4, 5), np.uint8), (6, 3, 4, 5), torch.uint8),
        (np.zeros((6, 4, 5), np.float64), (6, 1, 4, 5), torch.float32),
        (np.zeros((6, 4), np.int64), (6, 4), torch.float32),
        (np.zeros((6, 3, 2, 4), ">f4"), (6, 3, 2, 4), torch.float32),
        (
            np.asfortranarray(np.arange(24, dtype=np.uint8).reshape(2, 3, 4)),
            (2, 1, 3, 4),
            torch.uint8,
        ),
    ],
)
def test_arrays(
    tmp_path: Path, array: np.ndarray, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    data = load(saved(tmp_path, array))
    assert (tuple(data.images.shape), data.images.dtype) == (shape, dtype)
    assert np.array_equal(data.images.numpy().reshape(array.shape), array)
    assert data.labels is None
    assert data.classes == 0


def bad_arrays() -> dict[str, tuple[Callable[[Path], Any], str]]:
    array = np.zeros((2, 3, 8, 8), np.float32)

    def several(path: Path) -> None:
        with path.open("wb") as file:
            np.savez(file, array)

    def truncated(path: Path) -> None:
        np.save(path, array)
        path.write_bytes(path.read_bytes()[:-8])

    return {
        "absent": (lambda path: None, "There is no file"),
        "truncated": (truncated, "no readable"),
        "text": (lambda path: path.write_text("1 2 3"), "no readable"),
        "empty file": (lambda path: path.write_bytes(b""), "no readable"),
        "several": (several, "no readable"),
        "a pickle": (lambda path: path.write_bytes(pickle.dumps(array)), "no readable"),
        "objects": (lambda path: np.save(path, np.array([{}])), "allow_pickle"),
        "complex": (lambda path: np.save(path, array + 0j), "only real"),
        "words": (lambda path: np.save(path, np.array([["a"]])), "only real"),
        "a vector": (lambda path: np.save(path, array.flatten()), r"shape \(384,\)"),
        "a scalar": (lambda path: np.save(path, np.float32(1)), r"shape \(\)"),
        "no example": (lambda path: np.save(path, array[:0]), r"shape \(0, 3, 8, 8\)"),
        "channels last": (
            lambda path: np.save(path, array.transpose(0, 2, 3, 1)),
            r"transpose\(0, 3, 1, 2\)",
        ),
        "NaN": (lambda path: np.save(path, array + np.nan), "NaN or infinity"),
        "huge": (lambda path: np.save(path, array.astype(np.float64) + 1e300), "infinity"),
    }


@pytest.mark.parametrize("kind", bad_arrays())
def test_arrays_that_are_refused(tmp_path: Path, kind: str) -> None:
    write, words = bad_arrays()[kind]
    write(tmp_path / "file.npy")
    with pytest.raises(DataError, match=words):
        load(str(tmp_path / "file.npy"))


def test_an_array_of_objects_runs_nothing(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "sprung",))

    np.save(tmp_path / "file.npy", np.array([Trap()]))
    with pytest.raises(CorruptDataError):
        load(str(tmp_path / "file.npy"))
    assert not (tmp_path / "sprung").exists()
