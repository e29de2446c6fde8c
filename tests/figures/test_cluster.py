"""The same sweep on a Dask cluster: a scheduler and two workers, one of which is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from figures.runs import steady

from critinit.figures import run

NAME = "bn-phase"
CHANGES = {"sigma_w": [0.5, 3.5, 8], "sigma_b": [0.0, 2.0, 4], "width": 32}
SETTINGS = {
    "OMP_NUM_THREADS": "1",
    "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "10s",
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "20s",
}


@contextmanager
def process(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    """In a session of its own, so that it can be ended with all its children."""
    started = subprocess.Popen(
        [sys.executable, "-m", *command],
        start_new_session=True,
        env=os.environ | SETTINGS,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield started
    finally:
        kill(started)


def kill(started: subprocess.Popen[bytes]) -> None:
    if started.poll() is None:
        os.killpg(started.pid, signal.SIGKILL)
    started.wait()


def wait_for(path: Path) -> None:
    end = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < end, f"{path} does not come"
        time.sleep(0.05)


@pytest.mark.filterwarnings("ignore")  # of distributed, about the worker that is gone
def test_a_worker_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.json"
    worker = ("distributed.cli.dask_worker", "--scheduler-file", str(file), "--no-dashboard")
    options = ("--nthreads", "1", "--no-nanny", "--local-directory", str(tmp_path))
    scheduler = (
        "distributed.cli.dask_scheduler",
        "--host=127.0.0.1",
        "--port=0",
        "--no-dashboard",
        "--scheduler-file",
        str(file),
    )
    with process(*scheduler):
        wait_for(file)
        with process(*worker, *options) as victim, process(*worker, *options):
            address = address_in(file)
            wait_for_workers(address, 2)
            killed = threading.Event()

            def watch(done: int, total: int) -> None:
                if done >= 8 and not killed.is_set():
                    kill(victim)
                    killed.set()

            drawn = run(
                NAME,
                "smoke",
                folder=tmp_path / "cluster",
                changes=CHANGES,
                cluster=address,
                progress=watch,
            )
    assert killed.is_set()
    assert drawn.computed == drawn.points == 2 * 8 * 4
    here = run(NAME, "smoke", folder=tmp_path / "here", changes=CHANGES)
    assert steady(drawn, NAME, CHANGES) == steady(here, NAME, CHANGES)


def address_in(file: Path) -> str:
    import json

    address: str = json.loads(file.read_text())["address"]
    return address


def wait_for_workers(address: str, count: int) -> None:
    import distributed

    client: Any = distributed.Client
    with client(address, timeout=30) as connected:
        connected.wait_for_workers(count, timeout=60)
