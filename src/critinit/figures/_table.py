"""The table of a figure's points on disk: a row is appended as soon as its point is computed.

A CSV file. Its first line, a comment, holds the settings that all points have in common. A run that
is killed leaves at worst an unfinished last line, which the next one takes off.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from critinit._files import WriteError, write_text
from critinit.figures._figure import Point, Row, Settings
from critinit.figures.errors import FigureError

_DIGITS = 6


def fingerprint(settings: Settings) -> str:
    """Eight digits that differ between different settings."""
    return hashlib.sha256(_as_text(settings).encode()).hexdigest()[:8]


class Table:
    """The rows that are there, and those that are still to come.

    Args:
        path: The file; it need not exist.
        settings: What all points have in common.
        parameters: The columns that tell points apart.
        results: The other columns.
    """

    def __init__(
        self, path: Path, settings: Settings, parameters: Sequence[str], results: Sequence[str]
    ) -> None:
        self.path = path
        self.head = f"# {_as_text(settings)}"
        self.parameters = tuple(parameters)
        self.columns = (*parameters, *results)

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Create or mend the file, and keep other processes out as long as this runs."""
        lock = FileLock(self.path.with_name(f".{self.path.name}.lock"))
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            lock.acquire(timeout=0)
        except Timeout:
            raise FigureError(
                f"another process is filling {self.path}: wait for it, or pass another folder."
            ) from None
        except OSError as error:
            raise WriteError(f"{self.path} cannot be written: {error.strerror}.") from error
        with lock:
            if not self.path.exists():
                write_text(self.path, f"{self.head}\n{_line(self.columns)}")
            self._take_off_unfinished()
            yield

    def rows(self) -> list[Row]:
        """All finished rows, in the order in which they were finished."""
        return [dict(zip(self.columns, map(_value, cells), strict=True)) for cells in self._cells()]

    def missing(self, points: Sequence[Point]) -> list[Point]:
        """Those without a row, in their order."""
        there = {tuple(cells[: len(self.parameters)]) for cells in self._cells()}
        return [point for point in points if self._key(point) not in there]

    def append(self, row: Mapping[str, Any]) -> None:
        """Add a row, at once and on the disk when this returns."""
        assert row.keys() == set(self.columns), f"{sorted(row)} for {sorted(self.columns)}"
        line = _line([_cell(row[c], exact=c in self.parameters) for c in self.columns]).encode()
        try:
            with open(self.path, "ab") as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise WriteError(f"{self.path} cannot be written: {error.strerror}.") from error

    def _cells(self) -> list[list[str]]:
        if not self.path.exists():
            return []
        lines = self._text().splitlines()
        if lines[:2] != [self.head, _line(self.columns).rstrip()]:
            raise FigureError(
                f"{self.path} holds other settings or columns than asked for. Move it away, or "
                "pass another folder."
            )
        return list(csv.reader(lines[2:]))

    def _key(self, row: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(_cell(row[name], exact=True) for name in self.parameters)

    def _text(self) -> str:
        """Whole lines only: another process may be writing the last one."""
        text = self.path.read_text(encoding="utf-8")
        return text[: text.rfind("\n") + 1]

    def _take_off_unfinished(self) -> None:
        whole = self._text().encode()
        if len(whole) < self.path.stat().st_size:
            os.truncate(self.path, len(whole))


def _as_text(settings: Settings) -> str:
    return json.dumps(settings, sort_keys=True, ensure_ascii=False)


def _line(cells: Sequence[str]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(cells)
    return out.getvalue()


def _cell(value: Any, exact: bool) -> str:
    """A number, several numbers with spaces between, or text."""
    if isinstance(value, list | tuple):
        return " ".join(_cell(each, exact) for each in value)
    if isinstance(value, float):
        return repr(value) if exact else f"{value:.{_DIGITS}g}"
    return str(value)


def _value(cell: str) -> Any:
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    try:
        return [float(part) for part in cell.split(" ")]
    except ValueError:
        return cell
