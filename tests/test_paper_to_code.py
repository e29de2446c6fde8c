"""The page that leads from the paper to the code names only what exists, and leaves nothing out."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/paper-to-code.md").read_text()
QUOTED = re.findall(r"`([^`\n]+)`", PAGE)
CODE = sorted({word for word in QUOTED if re.fullmatch(r"critinit[\w.]*:[\w.]+", word)})
TESTS = sorted({word for word in QUOTED if "::" in word})
EQUATIONS = 72  # as LaTeX numbers them
ROWS = [
    re.split(r"(?<!\\)\|", line.strip().strip("|"))
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| in the paper")
]


@pytest.mark.parametrize("name", CODE)
def test_the_code_exists(name: str) -> None:
    assert not isinstance(resolve_name(name), ModuleType)


@cache
def defined_in(path: str) -> set[str]:
    """``test`` and ``Class::test`` of a file, which is read, not run."""
    found = set()
    for node in ast.parse((ROOT / path).read_text()).body:
        if isinstance(node, ast.ClassDef):
            inside = [n.name for n in node.body if isinstance(n, ast.FunctionDef)]
            found |= {f"{node.name}::{name}" for name in inside}
        elif isinstance(node, ast.FunctionDef):
            found.add(node.name)
    return found


@pytest.mark.parametrize("name", TESTS)
def test_the_test_exists(name: str) -> None:
    path, test = name.split("::", 1)
    assert path.startswith("tests/")
    assert test.rpartition("::")[2].startswith("test_")
    assert test in defined_in(path)


def test_names_are_written_so_that_they_are_checked() -> None:
    """Whatever looks like a name of ours is one of those above, or a whole module."""
    for word in QUOTED:
        if word.startswith(("critinit", "tests")):
            assert word in CODE or word in TESTS or word == "critinit.theory", word


def test_every_equation_is_listed_once() -> None:
    listed: Counter[int] = Counter()
    for first, *_ in ROWS:
        label = first.split(":")[0]
        for start, _, stop in re.findall(r"\((\d+)\)(–\((\d+)\))?", label):
            listed.update(range(int(start), int(stop or start) + 1))
    assert listed == Counter(range(1, EQUATIONS + 1))


@pytest.mark.parametrize(
    "names",
    [
        ["def. APJN", "def. critical"],
        ["Remark 1.1", "Remark 3.1"],
        ["alg. j_general", "alg. j_train"],
        ["conj. bn", "conj. proj", "conj. tilde_h"],
        ["fig. relu_jac", "fig. bn_relu", "fig. resmlp", "fig. vgg", "figapp. relu_jac"],
    ],
)
def test_all_else_that_has_a_number_is_listed_once(names: list[str]) -> None:
    firsts = [row[0].strip() for row in ROWS]
    for name in names:
        assert sum(bool(re.match(rf"{re.escape(name)}\b", first)) for first in firsts) == 1, name


def test_no_cell_for_code_or_test_is_left_empty() -> None:
    """What is missing is said."""
    for row in ROWS:
        assert len(row) == 4, row
        assert all(cell.strip() for cell in row[:3]), row
