"""A run that is killed loses the points in flight, and no more."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from figures.runs import steady

from critinit.figures import find, run
from critinit.figures._run import table_of
from critinit.figures._table import fingerprint

NAME = "bn-phase"
CHANGES = {"sigma_w": [0.5, 3.5, 10], "sigma_b": [0.0, 2.0, 3], "width": 32}
COMMAND = (
    "import json, sys; from critinit.figures import run; "
    f"run({NAME!r}, 'smoke', folder=sys.argv[1], changes=json.loads(sys.argv[2]), "
    "workers=int(sys.argv[3]))"
)


def table_path(folder: Path) -> Path:
    settings = find(NAME).settled("smoke", CHANGES)
    return folder / f"{NAME}-smoke-{fingerprint(settings)}.csv"


def rows_in(path: Path) -> int:
    return max(0, path.read_bytes().count(b"\n") - 2) if path.exists() else 0


@pytest.mark.parametrize("workers", [1, 2])
def test_killed_and_run_again(workers: int, tmp_path: Path) -> None:
    path = table_path(tmp_path)
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, str(tmp_path), json.dumps(CHANGES), str(workers)],
        start_new_session=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    try:
        end = time.monotonic() + 60
        while rows_in(path) < 5 and process.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    kept = rows_in(path)
    figure = find(NAME)
    settings = figure.settled("smoke", CHANGES)
    points = figure.points(settings)
    assert 5 <= kept < len(points)
    before = table_of(figure, settings, path).rows()

    again = run(NAME, "smoke", folder=tmp_path, changes=CHANGES)
    assert again.computed == len(points) - len(before)
    assert again.points == len(points)
    assert table_of(figure, settings, path).rows()[: len(before)] == before
    whole = run(NAME, "smoke", folder=tmp_path / "whole", changes=CHANGES)
    assert steady(again, NAME, CHANGES) == steady(whole, NAME, CHANGES)
