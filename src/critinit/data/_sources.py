"""Data by name."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from critinit.data import _array, _cifar10, _digits, _fashion_mnist, _folder
from critinit.data._examples import Examples, InMemory, Size
from critinit.data.errors import DataError, MissingDataError

NAMES = ("gaussian", "digits", "fashion-mnist", "cifar10")
SPLITS = ("train", "test")
_FOLDER = "folder:"
_ARRAY = ".npy"


def examples(
    source: str,
    split: str,
    size: Size | None = None,
    channels: int | None = None,
    directory: str | Path | None = None,
) -> Examples:
    """One split of a source, in the size and with the channels asked for; not of ``gaussian``."""
    if source.startswith(_FOLDER):
        path = source.removeprefix(_FOLDER)
        if not path:
            raise DataError("folder: needs a path behind it, such as folder:photos.")
        return _folder.read(Path(path).expanduser(), split, size, channels)
    found = _in_memory(source, split, Path(directory).expanduser() if directory else None)
    return InMemory(found.raw, found.labels, found.class_names, size, channels)


def check(source: str, split: str) -> None:
    """Refuse what is no source, with the nearest that is, and what is no split."""
    if split not in SPLITS:
        raise DataError(f"split={split!r} is unknown: use 'train' or 'test'.")
    if source in NAMES or source.startswith(_FOLDER) or source.endswith(_ARRAY):
        return
    if Path(source).is_dir():
        near = f" Did you mean {_FOLDER}{source}?"
    else:
        close = get_close_matches(source.lower().replace("_", "-"), NAMES, 1, 0.5)
        near = f" Did you mean {close[0]}?" if close else ""
    raise DataError(
        f"There is no data source {source!r}.{near} The sources are {', '.join(NAMES)}, "
        f"{_FOLDER}PATH and FILE{_ARRAY}."
    )


def _in_memory(source: str, split: str, directory: Path | None) -> InMemory:
    if source == "digits":
        return _digits.read(split)
    if source == "fashion-mnist":
        return _fashion_mnist.read(split, directory)
    if source == "cifar10":
        return _cifar10.read(split, directory)
    if split != "train":
        raise MissingDataError(f"{source} is one array, without test examples: load 'train'.")
    return _array.read(Path(source).expanduser())
