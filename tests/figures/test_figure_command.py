"""``critinit figure``: what the page shows of it runs, and Ctrl-C loses nothing."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli.terminal import call, environment

PAGE = Path(__file__).parents[2] / "docs/figures.md"
INTRODUCTION = PAGE.read_text().split("\n## ")[0]
COMMANDS = [
    shlex.split(line, comments=True)[1:]
    for block in re.findall(r"```bash\n(.*?)```", INTRODUCTION, re.DOTALL)
    for line in block.splitlines()
]


def smallest(arguments: list[str], folder: Path) -> list[str]:
    """The same command at the smallest scale, on this machine."""
    kept = list(arguments)
    for option in ("--scale", "--cluster", "--workers"):
        if option in kept:
            del kept[kept.index(option) : kept.index(option) + 2]
    named = len(kept) > 1
    return [*kept, "--scale", "smoke", "--folder", str(folder)] if named else kept


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_commands_of_the_page_run(arguments: list[str], tmp_path: Path) -> None:
    ended = call(*smallest(arguments, tmp_path))
    assert ended.status == 0, ended.err
    assert ended.out
    assert len(arguments) == 1 or list(tmp_path.glob("*.png"))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("figure relu-scam", "Did you mean 'relu-scan'"),
        ("figure relu-scan --scale large", "'large' is not one of"),
        ("figure relu-scan --scale smoke --set depth=deep", "depth='deep'"),
        ("figure relu-scan --scale smoke --set wdith=3", "Did you mean 'width'"),
    ],
)
def test_bad_input_is_refused_in_one_line(line: str, words: str, tmp_path: Path) -> None:
    ended = call(*line.split(), "--folder", str(tmp_path))
    assert ended.status == 2
    assert words in ended.err
    assert ended.err.count("\n") == 1


def test_interrupted(tmp_path: Path) -> None:
    """Ctrl-C reaches all processes; the points that are finished stay."""
    options = ["--set", "sigma_w=0.5,3.5,40", "--set", "sigma_b=0,3,20", "--workers", "2"]
    process = subprocess.Popen(
        [sys.executable, "-m", "critinit", "figure", "bn-phase", "--scale", "smoke", *options,
         "--folder", str(tmp_path)],
        start_new_session=True,
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    end = time.monotonic() + 90
    while sum(path.read_bytes().count(b"\n") for path in tmp_path.glob("*.csv")) < 6:
        assert time.monotonic() < end
        assert process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "critinit: interrupted\n")
