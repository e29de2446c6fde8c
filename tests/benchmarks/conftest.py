"""The scripts of ``benchmarks/``, which import each other by their bare names."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="session")
def scripts() -> Iterator[SimpleNamespace]:
    """Those that the tests need; afterwards their names are free again."""
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        needed = ("bench", "guard", "edges", "isolated", "kept", "memory", "readable", "results")
        loaded = {name: import_module(name) for name in (*needed, "scaling", "tasks", "peers")}
        loaded["gradinit"] = import_module("peers.gradinit_from_its_paper")
        loaded["metainit"] = import_module("peers.metainit_from_its_paper")
        yield SimpleNamespace(**loaded)
    for name in set(sys.modules) - before:
        if str(FOLDER) in (getattr(sys.modules[name], "__file__", None) or ""):
            del sys.modules[name]
