"""The demonstration holds what it promises, on the data it is about."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cli.terminal import call


def test_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At one rate of the grid; `make demo` runs them all."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("critinit.cli.demo.RATES", (0.0003,))
    ended = call("demo", "--steps", "200", width=100)
    assert (ended.status, ended.err) == (0, "")
    assert "Before: Gradients vanish" in ended.out
    assert "After: Critical" in ended.out
    default, tuned = (
        float(found) / 100 for found in re.findall(r"network\s+([\d.]+)%\s+\(", ended.out)
    )
    chance = 3 * (0.1 * 0.9 / 297) ** 0.5  # three standard errors
    assert abs(default - 0.1) < chance
    assert tuned > 0.5
    page = (tmp_path / "report.html").read_text()
    assert str(tmp_path / "report.html") in ended.out
    assert f"{tuned:.1%}" in page
    assert f"{default:.1%}" in page
    assert "learning rates 0.0003," in page


def test_quiet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("critinit.cli.demo.RATES", (0.0003,))
    page = tmp_path / "page.html"
    ended = call("demo", "--quiet", "--steps", "2", "--seed", "1", "--report", str(page))
    assert (ended.status, ended.out, ended.err) == (0, "", "")
    assert "Training" in page.read_text()
