"""Trees of image files: one folder for each class, in ``train`` and ``val`` where there are both.

Images are opened only when they are picked, so a tree may be larger than memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from critinit.data._examples import Size, evenly, height_width
from critinit.data._optional import optional
from critinit.data._pixels import statistics
from critinit.data.errors import CorruptDataError, DataError, MissingDataError

SUFFIXES = (
    ".bmp",
    ".gif",
    ".jpeg",
    ".jpg",
    ".pbm",
    ".pgm",
    ".png",
    ".ppm",
    ".tif",
    ".tiff",
    ".webp",
)
TEST_FOLDERS = ("test", "val", "validation")
MEASURED = 512  # images for the statistics: enough for a few hundredths of a standard deviation
_DEEP = ("I", "F")  # pillow's modes of more than eight bits start like this; it would clip them


@dataclass(frozen=True)
class Folder:
    """The image files of one split."""

    paths: tuple[str, ...]
    labels: Tensor | None
    class_names: tuple[str, ...]
    size: Size | None = None
    channels: int | None = None

    def __len__(self) -> int:
        return len(self.paths)

    def images(self, index: Tensor | None = None) -> Tensor:
        """The images of these numbers, or all, as bytes N×C×H×W."""
        numbers = range(len(self)) if index is None else index.tolist()
        first = self._image(self.paths[numbers[0]])
        images = torch.empty((len(numbers), *first.shape), dtype=torch.uint8)
        for row, number in enumerate(numbers):
            image = self._image(self.paths[number]) if row else first
            if image.shape != first.shape:
                raise DataError(
                    f"{self.paths[number]} is {_by(image)} where {self.paths[numbers[0]]} is "
                    f"{_by(first)}: ask for a size, to which all are cut and resized."
                )
            images[row] = image
        return images

    def statistics(self) -> tuple[Tensor, Tensor]:
        """Over all images, or `MEASURED` of them, evenly spaced in the order of their paths."""
        return statistics(self.images(evenly(len(self), MEASURED)))

    def _image(self, path: str) -> Tensor:
        """Resized so that it covers the size, the middle is cut out; C×H×W."""
        pillow = optional("PIL.Image", "A folder of images")
        try:
            with pillow.open(path) as file:
                if file.mode.startswith(_DEEP):
                    raise DataError(f"{path} has more than 8 bits a value: save it with 8.")
                pixels = np.array(self._fitted(file))
        except (OSError, SyntaxError, ValueError, pillow.DecompressionBombError) as error:
            raise CorruptDataError(f"{path} is no readable image: {error}.") from error
        return torch.from_numpy(np.atleast_3d(pixels)).permute(2, 0, 1)

    def _fitted(self, file: Any) -> Any:
        mode = "L" if self.channels == 1 else "RGB"
        if self.size is None:
            return file.convert(mode)
        height, width = height_width(self.size)
        file.draft(mode, (width, height))  # a JPEG is decoded no larger than needed
        bilinear = optional("PIL.Image", "A folder of images").Resampling.BILINEAR
        fit = optional("PIL.ImageOps", "A folder of images").fit
        return fit(file.convert(mode), (width, height), method=bilinear)


def read(root: Path, split: str, size: Size | None = None, channels: int | None = None) -> Folder:
    """The training or the test images below ``root``.

    ``root/train`` and ``root/test`` (or ``val``, ``validation``) if there are such folders, else
    all of ``root`` is for training. In there, each folder is a class and its images, however deep,
    are the examples; images without any folder have no labels.
    """
    if channels not in (None, 1, 3):
        raise DataError(f"channels={channels}: images in a folder can be read with 1 or 3.")
    names = _classes(_split_root(root, "train"))
    base = _split_root(root, split)
    found = _classes(base)
    if unknown := set(found) - set(names):
        raise DataError(f"{base} has classes that training lacks: {', '.join(sorted(unknown))}.")
    if not found:
        paths = tuple(str(p) for p in sorted(base.iterdir()) if _is_image(p.name) and p.is_file())
        if not paths:
            raise DataError(
                f"There is no image in {base}: it needs files such as .png or .jpg, or one folder "
                "of them for each class."
            )
        return Folder(paths, None, (), size, channels)
    files = {name: sorted(_images_below(base / name)) for name in found}
    labels = [names.index(name) for name in found for _ in files[name]]
    paths = tuple(path for name in found for path in files[name])
    return Folder(paths, torch.tensor(labels), tuple(names), size, channels)


def _split_root(root: Path, split: str) -> Path:
    if not root.is_dir():
        raise MissingDataError(f"There is no folder {root}: check the path.")
    tests = [root / name for name in TEST_FOLDERS if (root / name).is_dir()]
    if (root / "train").is_dir():
        if split == "train":
            return root / "train"
        if tests:
            return tests[0]
    elif split == "train":
        if tests:
            raise MissingDataError(
                f"{root} has {tests[0].name} but no train: give the folder of the classes itself."
            )
        return root
    raise MissingDataError(
        f"{root} has no test images: that takes a folder train and one of {', '.join(TEST_FOLDERS)}"
        " in it."
    )


def _classes(base: Path) -> list[str]:
    """The folders that hold images."""
    folders = [p for p in base.iterdir() if p.is_dir() and not p.name.startswith(".")]
    return sorted(p.name for p in folders if next(_images_below(p), None) is not None)


def _images_below(folder: Path) -> Iterator[str]:
    for place, _, names in os.walk(folder):
        yield from (os.path.join(place, name) for name in names if _is_image(name))


def _is_image(name: str) -> bool:
    return os.path.splitext(name)[1].lower() in SUFFIXES and not name.startswith(".")


def _by(image: Tensor) -> str:
    return f"{image.shape[1]}×{image.shape[2]}"
