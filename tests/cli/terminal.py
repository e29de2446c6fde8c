"""Call the command line: within this process, which is quick, or as a process of its own."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import critinit
from critinit.cli import main

SOURCE = Path(critinit.__file__).parents[1]
PROGRAM = [sys.executable, "-m", "critinit"]


@dataclass(frozen=True)
class Ended:
    """How a call ended."""

    status: int
    out: str
    err: str


def call(*arguments: str, width: int = 80) -> Ended:
    """Call ``main`` as from a pipe of that width."""
    out, err = io.StringIO(), io.StringIO()
    path, modules = list(sys.path), set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["critinit", *arguments])
        patch.setenv("COLUMNS", str(width))
        streams = contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)
        with streams[0], streams[1], pytest.raises(SystemExit) as end:
            main(list(arguments))
    sys.path[:] = path  # a file of the user's adds to them
    for name in set(sys.modules) - modules:
        if name.startswith("critinit_user_"):
            del sys.modules[name]
    assert isinstance(end.value.code, int)
    return Ended(end.value.code, out.getvalue(), err.getvalue())


def environment(**more: str) -> dict[str, str]:
    """For a process that finds this critinit."""
    return {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1", **more}


def process(*arguments: str, cwd: Path | None = None, **more: str) -> Ended:
    """Call it as a process, and wait for its end."""
    run = subprocess.run(
        [*PROGRAM, *arguments],
        cwd=cwd,
        env=environment(**more),
        capture_output=True,
        text=True,
        check=False,
    )
    return Ended(run.returncode, run.stdout, run.stderr)


def refused(*arguments: str) -> str:
    """The one line that a call ends with that cannot be done."""
    ended = call(*arguments)
    assert ended.status == 2, ended
    assert ended.out == ""
    *_, line = lines = ended.err.splitlines()
    assert line.startswith("critinit: ")
    assert len([line for line in lines if not line.startswith("running ")]) == 1, ended.err
    assert "Traceback" not in ended.err
    return line.removeprefix("critinit: ")
