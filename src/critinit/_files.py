"""Write whole files or none: beside the target, then renamed, so that any reader sees old or new.

>>> import pathlib, tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     path = pathlib.Path(folder) / "report.txt"
...     write_text(path, "J = 1")
...     with replacing(path) as temporary, open(temporary, "w") as file:
...         _ = file.write("J = 2")  # as long as this runs, the old file is there
...         print(path.read_text())
...     print(path.read_text())
J = 1
J = 2
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from critinit.errors import CritinitError

_DEVICES = Path("/dev")


class WriteError(CritinitError):
    """A file could not be written: no such folder, no permission, or no space left."""


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Give a temporary path beside ``path`` to write to by any means; then rename it.

    A process that dies inside, ``kill -9`` included, leaves the old file as it was, and at worst a
    hidden temporary one. An exception, Ctrl-C included, leaves not even that. The mode of a file
    that is replaced is kept, a link is followed, and what is not a regular file (a pipe, a device)
    is written to directly.

    Raises:
        WriteError: In place of the `OSError` that writing to the temporary path raised.
    """
    target = Path(path)
    with _explained(target):
        if _is_stream(target):
            yield target
            return
        check_target(path)
        target = resolved(path)
        temporary = target.with_name(f".critinit-{secrets.token_hex(6)}{target.suffix}")
        try:
            yield temporary
            if target.exists():
                temporary.chmod(target.stat().st_mode & 0o7777)
            _flush(temporary)
            os.replace(temporary, target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def check_target(path: str | Path) -> None:
    """Raise what `replacing` would raise for want of a folder to write to."""
    with _explained(Path(path)):
        if _is_stream(Path(path)):
            return
        target = resolved(path)
        if not target.parent.is_dir():
            raise WriteError(f"{path} cannot be written: there is no folder {target.parent}.")
        if target.is_dir():
            raise WriteError(f"{path} cannot be written: it is a folder. Name a file in it.")
        if not os.access(target.parent, os.W_OK | os.X_OK):
            raise WriteError(f"{path} cannot be written: no permission in {target.parent}.")


def resolved(path: str | Path) -> Path:
    """Where ``path`` leads, through all links."""
    try:
        return Path(path).resolve()
    except RuntimeError as error:  # Python's word for it before 3.13
        raise WriteError(f"{path} cannot be written: it is a link to itself.") from error


def write_bytes(path: str | Path, data: bytes | memoryview) -> None:
    """Put ``data`` into the file at ``path``, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def write_text(path: str | Path, text: str) -> None:
    """Put ``text`` as UTF-8 into the file at ``path``, whole or not at all."""
    write_bytes(path, text.encode())


def _is_stream(path: Path) -> bool:
    return _DEVICES in path.absolute().parents or (
        path.exists() and not path.is_file() and not path.is_dir()
    )


def _flush(path: Path) -> None:
    """A rename may reach the disk before the contents do, unless they are asked to."""
    with open(path, "rb+") as file:
        os.fsync(file.fileno())


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise WriteError(f"{path} cannot be written: {error.strerror or error}.") from error
