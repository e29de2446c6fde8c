"""Theory predicts measurements, so it may not look at them."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from critinit import theory

PACKAGE = Path(theory.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))


def imported(tree: ast.AST, package: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{package} has a relative import"
            yield f"{node.module}"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", FILES, ids=[p.name for p in FILES])
def test_nothing_of_the_measuring_side_is_imported(path: Path) -> None:
    names = set(imported(ast.parse(path.read_text()), path.name))
    own = {n for n in names if n == "critinit" or n.startswith("critinit.")}
    allowed = ("critinit.theory", "critinit.errors", "critinit.models")
    assert {n for n in own if not n.startswith(allowed)} == set()
    others = {n.split(".")[0] for n in names} - {"critinit"}
    assert others <= {"numpy", "torch", *sys.stdlib_module_names}


def test_the_public_names() -> None:
    assert theory.__all__ == sorted(theory.__all__)
    for name in theory.__all__:
        assert getattr(theory, name).__doc__
