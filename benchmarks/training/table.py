"""The table of finished trainings: a CSV that only grows, one whole line at a time."""

from __future__ import annotations

import csv
import fcntl
import os
from pathlib import Path

from trial import Trial

RESULTS = Path(__file__).parent / "results.csv"


def rows(path: Path = RESULTS) -> list[dict[str, str]]:
    """What there is; a last line that a killed process did not finish does not count."""
    if not path.exists():
        return []
    whole = path.read_text().rpartition("\n")[0]
    return list(csv.DictReader(whole.splitlines()))


def done(path: Path = RESULTS) -> set[Trial]:
    return {
        Trial(r["network"], r["method"], float(r["lr"]), int(r["steps"]), int(r["seed"]))
        for r in rows(path)
    }


def append(row: dict[str, object], path: Path = RESULTS) -> None:
    """Add a line, behind whatever other processes have added."""
    with path.open("a+", newline="") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        _drop_torn_line(file.fileno(), path)
        writer = csv.DictWriter(file, list(row), lineterminator="\n")
        if path.stat().st_size == 0:
            writer.writeheader()
        writer.writerow({key: _short(value) for key, value in row.items()})
        file.flush()
        os.fsync(file.fileno())


def _drop_torn_line(descriptor: int, path: Path) -> None:
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        os.ftruncate(descriptor, whole)


def _short(value: object) -> object:
    return f"{value:.5g}" if isinstance(value, float) else value
