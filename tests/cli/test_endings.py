"""How a process ends: killed, interrupted, or with nobody to read what it says."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli.terminal import PROGRAM, call, environment, process

OLD = "old contents\n"
OWN = Path(__file__).with_name("networks.py")
TINY = ("mlp", "--set", "depth=3", "--set", "width=32", "--batch", "8")

# Stops when a file is about to be put in its place, with all of it written beside it.
CHILD = """
import os, sys, time
from critinit.cli import main
plain, name = os.replace, sys.argv[1]
def stop(a, b):
    if str(b).endswith(name):
        print("here", flush=True)
        time.sleep(60)
    plain(a, b)
os.replace = stop
sys.argv = ["critinit", *sys.argv[2:]]
main()
"""

WRITING = {
    "found.json": ("measure", *TINY, "--json"),
    "tuned.html": ("tune", *TINY, "--report"),
    "weights.safetensors": ("tune", *TINY, "--out"),
    "scan.json": ("scan", *TINY, "--sizes", "2,8", "--json"),
    "compared.html": ("compare", *TINY, "--init", "default", "--report"),
}


def stopped(name: str, folder: Path) -> subprocess.Popen[str]:
    """A process that is about to put ``name`` in its place."""
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, name, *WRITING[name], name, "--quiet"],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "here\n"
    return child


@pytest.mark.parametrize("name", WRITING)
def test_killed_in_the_middle_it_leaves_the_old_file(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(OLD)
    with stopped(name, tmp_path) as child:
        child.kill()
    assert child.returncode == -signal.SIGKILL
    assert (tmp_path / name).read_text() == OLD
    assert [p for p in tmp_path.iterdir() if not p.name.startswith(".critinit-")] == [
        tmp_path / name
    ]


@pytest.mark.parametrize("name", ["found.json", "weights.safetensors"])
def test_ctrl_c_while_writing_leaves_nothing(name: str, tmp_path: Path) -> None:
    with stopped(name, tmp_path) as child:
        child.send_signal(signal.SIGINT)
        _, err = child.communicate()
    assert (child.returncode, err) == (130, "critinit: interrupted\n")
    assert list(tmp_path.iterdir()) == []


def started(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    """The program as a process of its own, with pipes to read what it says."""
    return subprocess.Popen(
        [*PROGRAM, *arguments],
        cwd=cwd,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("seconds", [0.4, 1.2, 2.5])
def test_ctrl_c_at_any_moment(seconds: float, tmp_path: Path) -> None:
    """While torch is imported, the network built, traced, or tuned."""
    command = ["tune", "mlp", "--set", "depth=400", "--solver", "sgd", "--json", "found.json"]
    with started(*command, cwd=tmp_path) as child:
        time.sleep(seconds)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate()
    assert (child.returncode, out, err) == (130, "", "critinit: interrupted\n")
    assert list(tmp_path.iterdir()) == []


SWALLOWS = """
import time
print("here", flush=True)
try:
    time.sleep(60)
except BaseException:
    pass
"""


def test_ctrl_c_that_an_import_would_swallow(tmp_path: Path) -> None:
    """As packages in C do while they set themselves up."""
    (tmp_path / "network.py").write_text(SWALLOWS)
    with started("measure", "network.py:network", cwd=tmp_path) as child:
        assert child.stderr is not None
        assert child.stderr.readline() == "running network.py\n"
        assert child.stderr.readline() == "here\n"
        child.send_signal(signal.SIGINT)
        _, err = child.communicate()
    assert (child.returncode, err) == (130, "critinit: interrupted\n")


def test_a_reader_that_has_seen_enough() -> None:
    with subprocess.Popen(
        [*PROGRAM, "theory", "mlp", "--depth", "5000"],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        child.stdout.close()
        assert child.stderr is not None
        assert child.stderr.read() == ""


def in_a_terminal(*arguments: str, **more: str) -> str:
    """What a process writes to a terminal of its own, standard error included."""
    leader, follower = pty.openpty()
    with subprocess.Popen(
        [*PROGRAM, *arguments],
        env=environment(TERM="xterm-256color", COLUMNS="90", **more),
        stdin=follower,
        stdout=follower,
        stderr=follower,
    ):
        os.close(follower)
        shown = b""
        while True:
            try:
                more_bytes = os.read(leader, 4096)
            except OSError:  # the terminal is closed when its last writer is gone
                break
            shown += more_bytes
    os.close(leader)
    return shown.decode()


def test_in_a_terminal_there_is_progress_and_colour() -> None:
    shown = in_a_terminal("tune", *TINY)
    assert "tuning" in shown
    assert "\x1b[1;31m✗ Before: Gradients vanish" in shown
    hidden, back = shown.rfind("\x1b[?25l"), shown.rfind("\x1b[?25h")
    assert -1 < hidden < back, "the cursor is shown again"


def test_no_color_and_quiet_are_honoured() -> None:
    shown = in_a_terminal("measure", *TINY, NO_COLOR="1")
    assert "✗ Gradients vanish" in shown
    assert not any(f"\x1b[{code}m" in shown for code in ("31", "1;31", "34", "32"))
    assert in_a_terminal("measure", *TINY, "--quiet") == ""


def test_in_a_pipe_there_is_no_progress() -> None:
    ended = process("tune", *TINY)
    assert (ended.status, ended.err) == (0, "")
    assert "\x1b" not in ended.out


def test_help_does_not_wait_for_torch() -> None:
    code = (
        "import sys\nfrom critinit.cli import main\n"
        "try: main(['--help'])\nfinally: print(*sys.modules)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True
    )
    loaded = set(found.stdout.splitlines()[-1].split())
    assert "critinit.cli" in loaded
    assert not loaded & {"torch", "numpy", "timm", "transformers", "matplotlib"}


def test_version() -> None:
    ended = process("--version")
    assert ended.status == 0
    assert ended.out.startswith("critinit ")


def test_a_terminal_without_the_characters() -> None:
    ended = process("measure", *TINY, PYTHONIOENCODING="ascii")
    assert (ended.status, ended.err) == (0, "")
    assert "Gradients vanish" in ended.out


@pytest.mark.parametrize(("line", "status"), [("theory >&-", 0), ("mesure 2>&-", 2)])
def test_closed_streams(line: str, status: int) -> None:
    command = f"{sys.executable} -m critinit {line}"
    ended = subprocess.run(
        command, shell=True, env=environment(), capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (status, "", "")


def test_a_full_device() -> None:
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [*PROGRAM, "--help"], env=environment(), stdout=full, stderr=-1, text=True, check=False
        )
    assert ended.returncode == 2
    assert ended.stderr == (
        "critinit: the standard output cannot be written: No space left on device.\n"
    )


def test_ctrl_c_while_it_is_imported() -> None:
    code = (
        "import sys\nfrom critinit.__main__ import main\n"
        "class Interrupts:\n def find_spec(self, name, *_):\n"
        "  if name == 'typer': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupts())\nmain()"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (130, "critinit: interrupted\n")


@pytest.mark.parametrize(
    ("factory", "said"), [("talks", "how wide shall it be?"), ("talks_at_work", "shape (32, 16)")]
)
def test_what_a_network_prints_is_no_result(factory: str, said: str) -> None:
    model = f"{OWN}:{factory}"
    ended = process("measure", model, "--size", "16", "--json", "/dev/stdout", "--quiet")
    assert said in ended.err.splitlines()
    assert json.loads(ended.out)["run"]["seed"] == 0


@pytest.mark.parametrize("command", ["measure", "tune", "scan", "compare"])
def test_what_a_network_prints_at_work_is_no_result_of_any_command(command: str) -> None:
    ended = call(command, f"{OWN}:talks_at_work", "--size", "16")
    assert ended.status == 0, ended.err
    assert "shape (" in ended.err
    assert "shape (" not in ended.out
