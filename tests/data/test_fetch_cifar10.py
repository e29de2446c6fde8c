"""Fetching CIFAR-10: both archives, what is right already, and every refusal."""

from __future__ import annotations

import hashlib
import resource
import shutil
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from miniature import CLASSES, IMAGES, Miniature, contents, write_tar

from critinit.data import (
    CorruptDataError,
    DataError,
    MissingDataError,
    cache_directory,
    fetch_cifar10,
    load,
)
from critinit.data._cifar10 import FOLDER, TEST, TRAIN
from critinit.data._release import OFFICIAL, md5_of


@pytest.fixture
def npm(mini: Miniature, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install the stand-in; the fixture is its log."""
    log = mini.install_npm()
    monkeypatch.setenv("PATH", mini.environment()["PATH"])
    return log


def test_the_package_is_rewritten_in_the_official_layout(
    mini: Miniature, npm: Path, cache: Path
) -> None:
    seen: list[tuple[str, int, int]] = []
    folder = fetch_cifar10(cache, lambda *step: seen.append(step), release=mini.release)
    assert folder == cache / FOLDER
    assert contents(folder) == mini.files
    assert npm.read_text().startswith("pack miniature@1.0.0 --ignore-scripts ")
    assert seen[0] == ("fetching miniature@1.0.0", 0, 0)
    assert seen[1:] == [("writing", done, 7) for done in range(8)]
    assert [path.name for path in cache.iterdir() if path.is_dir()] == [FOLDER]


def test_the_official_archive_gives_the_same(mini: Miniature, cache: Path) -> None:
    archive = mini.official_archive({"../outside": b"no", f"{FOLDER}/../../up": b"no"})
    folder = fetch_cifar10(cache, archive=archive, release=mini.release)
    assert contents(folder) == mini.files
    assert not list(cache.parent.glob("**/outside"))
    assert not list(cache.parent.glob("**/up"))


def test_what_is_there_is_only_verified(mini: Miniature, npm: Path, cache: Path) -> None:
    folder = fetch_cifar10(cache, release=mini.release)
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    seen: list[str] = []
    fetch_cifar10(cache, lambda what, done, total: seen.append(what), release=mini.release)
    assert set(seen) == {"verifying"}
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    assert len(npm.read_text().splitlines()) == 1


def test_damage_is_repaired_and_nothing_else_touched(
    mini: Miniature, npm: Path, cache: Path
) -> None:
    folder = fetch_cifar10(cache, release=mini.release)
    (folder / TRAIN[2]).write_bytes(b"damaged")
    (folder / TEST[0]).unlink()
    (folder / "readme.html").write_text("mine")
    fetch_cifar10(cache, release=mini.release)
    assert contents(folder) == {**mini.files, "readme.html": b"mine"}


def test_the_published_checksums_name_every_file() -> None:
    assert set(OFFICIAL.md5) == {*TRAIN, *TEST, "batches.meta.txt"}
    assert OFFICIAL.md5["batches.meta.txt"] == hashlib.md5(CLASSES).hexdigest()


def test_loading_reads_every_byte_where_it_belongs(mini: Miniature, cache: Path) -> None:
    fetch_cifar10(cache, archive=mini.official_archive(), release=mini.release)
    train, test = load("cifar10", directory=cache), load("cifar10", "test", directory=cache)
    for i, name in enumerate(TRAIN):
        part = slice(i * IMAGES, (i + 1) * IMAGES)
        assert torch.equal(train.images[part], torch.from_numpy(mini.images[name]))
        assert train.labels is not None
        assert train.labels[part].tolist() == mini.labels[name].tolist()
    assert torch.equal(test.images, torch.from_numpy(mini.images[TEST[0]]))
    assert (len(train), len(test), train.classes) == (5 * IMAGES, IMAGES, 10)
    assert torch.equal(test.mean, train.mean), "both are normalized in the same way"
    assert torch.equal(load("cifar10", directory=cache / FOLDER).images, train.images)


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_directory() == tmp_path / "default-cache"
    assert cache_directory("here") == Path("here")
    monkeypatch.delenv("CRITINIT_CACHE")
    assert cache_directory() == tmp_path / "xdg" / "critinit"
    for unusable in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", unusable)
        assert cache_directory() == Path.home() / ".cache" / "critinit"


# What is refused: each leaves the cache without the set, and without rubbish.


@contextmanager
def refused(cache: Path, kind: type[Exception], *words: str) -> Iterator[None]:
    with pytest.raises(kind) as caught:
        yield
    message = str(caught.value)
    assert all(word in message for word in words), message
    assert not cache.is_dir() or [p for p in cache.iterdir() if p.is_dir()] == []


def test_no_npm(mini: Miniature, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(mini.home))
    with refused(cache, DataError, "npm", "install it", "cifar-10-binary.tar.gz"):
        fetch_cifar10(cache, release=mini.release)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("sys.exit('npm notice hello\\nnpm error code E404\\nnpm error not found')", "E404; npm"),
        ("sys.exit(3)", "exit code 3): it said nothing"),
        ("pass", "exit code 0"),
        ("sys.exit('npm error nospc ENOSPC: no space left on device')", "about 330 MB"),
    ],
)
def test_npm_fails(mini: Miniature, npm: Path, cache: Path, body: str, words: str) -> None:
    mini.install_npm(body)
    with refused(cache, DataError, words):
        fetch_cifar10(cache, release=mini.release)


def test_another_package(mini: Miniature, npm: Path, cache: Path) -> None:
    with refused(cache, CorruptDataError, "SHA-256", OFFICIAL.sha256):
        fetch_cifar10(cache, release=replace(mini.release, sha256=OFFICIAL.sha256))


@pytest.mark.parametrize("name", [TRAIN[4], "batches.meta.txt"])
def test_another_checksum(mini: Miniature, npm: Path, cache: Path, name: str) -> None:
    wrong = replace(mini.release, md5={**mini.release.md5, name: "0" * 32})
    with refused(cache, CorruptDataError, name, "0" * 32, "published"):
        fetch_cifar10(cache, release=wrong)
    with refused(cache, CorruptDataError, name):
        fetch_cifar10(cache, archive=mini.official_archive(), release=wrong)


def archives() -> dict[str, tuple[Callable[[Path], object], str]]:
    """Archives that are none, by what they are."""

    def truncated(path: Path) -> None:
        path.write_bytes(path.read_bytes()[:-2000])

    def link(path: Path) -> None:
        path.unlink()
        with tarfile.open(path, "w:gz") as tar:
            member = tarfile.TarInfo(f"{FOLDER}/{TEST[0]}")
            member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
            tar.addfile(member)

    return {
        "absent": (Path.unlink, "cannot be read: No such file"),
        "a folder": (lambda path: (path.unlink(), path.mkdir()), "cannot be read"),
        "text": (lambda path: path.write_text("not found"), "no complete .tar.gz"),
        "truncated": (truncated, "no complete .tar.gz"),
        "links": (link, "does not hold data_batch_1.bin, data_batch_2.bin"),
        "of another set": (
            lambda path: write_tar(path, {"cifar-100-binary/train.bin": b"x"}),
            "binary version?",
        ),
    }


@pytest.mark.parametrize("kind", archives())
def test_no_official_archive(mini: Miniature, cache: Path, kind: str) -> None:
    spoil, words = archives()[kind]
    archive = mini.official_archive()
    spoil(archive)
    with refused(cache, DataError, words):
        fetch_cifar10(cache, archive=archive, release=mini.release)


def test_one_file_is_missing(mini: Miniature, cache: Path) -> None:
    archive = mini.official_archive({f"{FOLDER}/{TRAIN[1]}": None})
    with refused(cache, CorruptDataError, f"does not hold {TRAIN[1]}"):
        fetch_cifar10(cache, archive=archive, release=mini.release)


@pytest.mark.parametrize(
    ("member", "data", "words"),
    [
        ("train_lables.json", None, "does not hold package/train_lables.json"),
        ("train_lables.json", b"[1, 2", "cannot be read"),
        ("test_lables.json", b"[1, 2]", "for 2 labels"),
        ("test_lables.json", b"[-1, 2]", "cannot be read"),
        ("test_lables.json", b"[1.5, 2]", "cannot be read"),
        ("test_lables.json", b"2", "cannot be read"),
        ("data_batch_3.png", b"no picture", "cannot be read"),
        ("data_batch_3.png", None, f"does not hold {TRAIN[2]}"),
    ],
)
def test_a_damaged_package(
    mini: Miniature, npm: Path, cache: Path, member: str, data: bytes | None, words: str
) -> None:
    with tarfile.open(mini.tarball) as tar:
        members = {m.name: tar.extractfile(m).read() for m in tar}  # type: ignore[union-attr]
    members.pop(f"package/{member}")
    write_tar(mini.tarball, members | ({f"package/{member}": data} if data else {}))
    with refused(cache, CorruptDataError, words):
        fetch_cifar10(cache, release=mini.release)


@contextmanager
def no_file_above(size: int) -> Iterator[None]:
    """The system's own limit, as a quota would be: writing beyond it fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_the_disk_is_full(mini: Miniature, cache: Path) -> None:
    archive, release = mini.official_archive(), mini.release
    with refused(cache, DataError, "is full", "CRITINIT_CACHE"), no_file_above(3000):
        fetch_cifar10(cache, archive=archive, release=release)
    fetch_cifar10(cache, archive=archive, release=release)
    assert contents(cache / FOLDER) == mini.files


def test_the_cache_cannot_be_made(mini: Miniature, cache: Path) -> None:
    cache.write_text("a file in its place")
    with refused(cache, DataError, "cannot be kept in", str(cache)):
        fetch_cifar10(cache, archive=mini.official_archive(), release=mini.release)


def test_missing_and_damaged_files_when_loading(mini: Miniature, cache: Path) -> None:
    with pytest.raises(MissingDataError, match="critinit data cifar10"):
        load("cifar10", directory=cache)
    with pytest.raises(MissingDataError, match="default-cache"):
        load("cifar10")
    folder = fetch_cifar10(cache, archive=mini.official_archive(), release=mini.release)
    whole = (folder / TEST[0]).read_bytes()
    for broken in (whole[:-1], b""):
        (folder / TEST[0]).write_bytes(broken)
        with pytest.raises(CorruptDataError, match=r"test_batch.*critinit data cifar10"):
            load("cifar10", "test", directory=cache)
    (folder / TEST[0]).write_bytes(b"\x0a" + whole[1:])
    with pytest.raises(CorruptDataError, match="label 10"):
        load("cifar10", "test", directory=cache)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_the_real_one(cache: Path) -> None:
    folder = fetch_cifar10(cache)
    assert {name: md5_of(folder / name) for name in OFFICIAL.md5} == OFFICIAL.md5
    train, test = load("cifar10", directory=cache), load("cifar10", "test", directory=cache)
    assert train.labels is not None
    assert test.labels is not None
    assert train.labels.bincount().tolist() == [5000] * 10
    assert test.labels.bincount().tolist() == [1000] * 10
    everything = (train.normalized(slice(i, i + 5000)) for i in range(0, 50000, 5000))
    squares = torch.stack([x.square().mean((0, 2, 3)) for x in everything]).mean(0)
    torch.testing.assert_close(squares, torch.ones(3), rtol=1e-5, atol=0)
