"""Files are written whole or not at all."""

from __future__ import annotations

import os
import resource
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from critinit._files import WriteError, replacing, write_bytes, write_text


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_old_until_new(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_text(path, "J = 1 ± 0.1")
    assert path.read_bytes() == "J = 1 ± 0.1".encode()
    with replacing(path) as temporary:
        assert temporary.parent == tmp_path
        assert temporary.suffix == ".html", "some writers choose the format by it"
        temporary.write_text("half")
        assert path.read_text() == "J = 1 ± 0.1"
        with temporary.open("a") as file:
            file.write(" and half")
    assert path.read_text() == "half and half"
    write_bytes(path, b"\x00\r\n")
    assert path.read_bytes() == b"\x00\r\n"
    assert names(tmp_path) == ["report.html"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_exception_leaves_the_old_file_alone(tmp_path: Path, error: type[BaseException]) -> None:
    def write_half() -> None:
        with replacing(path) as temporary:
            temporary.write_text("new")
            raise error

    path = tmp_path / "file"
    write_text(path, "old")
    with pytest.raises(error):
        write_half()
    assert path.read_text() == "old"
    assert names(tmp_path) == ["file"]


WRITER = """
import sys
from critinit._files import replacing
with replacing(sys.argv[1]) as temporary, open(temporary, "w") as file:
    file.write("new" * 100_000)
    file.flush()
    print("half", flush=True)
    sys.stdin.read()
"""


def test_killed_in_the_middle(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_text(path, "old")
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"half\n"
        writer.kill()
    assert writer.returncode == -signal.SIGKILL
    assert path.read_text() == "old"


def test_modes_and_links_stay(tmp_path: Path) -> None:
    private, link = tmp_path / "private", tmp_path / "link"
    write_text(private, "old")
    private.chmod(0o600)
    link.symlink_to(private)
    write_text(link, "new")
    assert link.is_symlink()
    assert private.read_text() == "new"
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    plain = tmp_path / "plain"
    plain.touch()
    write_text(tmp_path / "fresh", "")
    assert (tmp_path / "fresh").stat().st_mode == plain.stat().st_mode, "as any new file"


def test_pipes_and_devices_are_written_to(tmp_path: Path) -> None:
    before = os.stat("/dev/null")
    write_text("/dev/null", "nothing")
    assert os.path.samestat(os.stat("/dev/null"), before)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_text(pipe, "through")
    reader.join()
    assert read == ["through"]
    assert names(tmp_path) == ["pipe"]


def test_what_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match=r"there is no folder .*nowhere"):
        write_text(tmp_path / "nowhere" / "file", "")
    with pytest.raises(WriteError, match="it is a folder"):
        write_text(tmp_path, "")
    with pytest.raises(WriteError, match="/dev/full cannot be written: No space left on device"):
        write_text("/dev/full", "new")
    write_text(tmp_path / "file", "old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(WriteError, match=r"file cannot be written: File too large"):
            write_text(tmp_path / "file", "new" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (tmp_path / "file").read_text() == "old"
    assert names(tmp_path) == ["file"]
