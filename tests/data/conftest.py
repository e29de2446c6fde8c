"""What several tests of data need."""

from __future__ import annotations

from pathlib import Path

import miniature
import pytest


@pytest.fixture
def mini(tmp_path: Path) -> miniature.Miniature:
    home = tmp_path / "miniature"
    home.mkdir()
    return miniature.make(home)


@pytest.fixture(autouse=True)
def no_settings_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CRITINIT_CACHE", str(tmp_path / "default-cache"))
    monkeypatch.delenv("CRITINIT_FASHION_MNIST", raising=False)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"
