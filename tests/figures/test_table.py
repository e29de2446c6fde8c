"""The table on disk: rows survive, whatever happens to the process that writes them."""

from __future__ import annotations

import json
import math
import multiprocessing
from pathlib import Path

import pytest

from critinit.errors import CritinitError
from critinit.figures import FigureError
from critinit.figures._table import Table, fingerprint

SETTINGS = {"data": "gaussian", "depth": 3}


def table(path: Path, **changes: object) -> Table:
    return Table(path / "t.csv", SETTINGS | changes, ("loss", "x"), ("j", "note"))


def row(x: float, j: object = 1.5) -> dict[str, object]:
    return {"loss": "jll", "x": x, "j": j, "note": "a, b"}


def test_rows_come_back(tmp_path: Path) -> None:
    kept = table(tmp_path)
    values = [0.1, 1 / 3, [1.0, 2.5], math.inf, -math.inf, 7]
    with kept.opened():
        for x, value in enumerate(values):
            kept.append(row(float(x), value))
    found = table(tmp_path).rows()
    assert [r["j"] for r in found] == [0.1, 0.333333, [1.0, 2.5], math.inf, -math.inf, 7]
    assert {r["note"] for r in found} == {"a, b"}


def test_settings_are_in_the_file(tmp_path: Path) -> None:
    with table(tmp_path).opened():
        pass
    head = (tmp_path / "t.csv").read_text().splitlines()[0]
    assert json.loads(head.removeprefix("# ")) == SETTINGS


def test_points_are_told_apart_exactly(tmp_path: Path) -> None:
    kept = table(tmp_path)
    points = [{"loss": "jll", "x": 0.1}, {"loss": "1", "x": 1.0}]
    near = {"loss": "jll", "x": 0.1 + 1e-16}
    assert near not in points
    with kept.opened():
        kept.append(row(0.1))
        kept.append(row(1.0) | {"loss": "1"})
    assert kept.missing([*points, near]) == [near]


def test_unfinished_line_is_taken_off(tmp_path: Path) -> None:
    kept = table(tmp_path)
    with kept.opened():
        kept.append(row(1.0))
        kept.append(row(2.0))
    whole = kept.path.read_bytes()
    kept.path.write_bytes(whole[:-4])
    assert [r["x"] for r in kept.rows()] == [1.0]
    with kept.opened():
        kept.append(row(2.0))
    assert kept.path.read_bytes() == whole


def test_a_table_of_other_settings_or_columns_is_refused(tmp_path: Path) -> None:
    with table(tmp_path).opened():
        pass
    with pytest.raises(FigureError, match="other settings"):
        table(tmp_path, depth=4).rows()
    with pytest.raises(FigureError, match="other settings"):
        Table(tmp_path / "t.csv", SETTINGS, ("loss", "x"), ("j",)).rows()


def test_fingerprints_tell_settings_apart() -> None:
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    assert fingerprint({"a": 1}) != fingerprint({"a": 1.5})


def _held(path: Path, ready: object, done: object) -> None:
    with table(path).opened():
        ready.set()  # type: ignore[attr-defined]
        done.wait(20)  # type: ignore[attr-defined]


def test_two_processes_do_not_fill_one_table(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    ready, done = context.Event(), context.Event()
    other = context.Process(target=_held, args=(tmp_path, ready, done))
    other.start()
    try:
        assert ready.wait(20)
        with pytest.raises(FigureError, match="another process"), table(tmp_path).opened():
            pass
        assert table(tmp_path).rows() == []  # reading is allowed
    finally:
        done.set()
        other.join()
    with table(tmp_path).opened():
        pass


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CritinitError, match="cannot be written"), table(tmp_path / "file").opened():
        pass
