"""What pyproject.toml asks for is what the two sets of constraints install."""

from __future__ import annotations

import tomllib
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DECLARED = {
    requirement.name: requirement
    for requirement in map(
        Requirement, chain(PROJECT["dependencies"], *PROJECT["optional-dependencies"].values())
    )
    if requirement.name != PROJECT["name"]
}


def pinned(file: str) -> dict[str, str]:
    """Versions by name; of several for one package the first, which is for the oldest Python."""
    found: dict[str, str] = {}
    for line in (ROOT / file).read_text().splitlines():
        if text := line.partition("#")[0].strip():
            requirement = Requirement(text)
            found.setdefault(requirement.name, str(requirement.specifier).removeprefix("=="))
    return found


@pytest.mark.parametrize("name", DECLARED)
def test_the_lowest_is_the_lower_bound(name: str) -> None:
    assert str(DECLARED[name].specifier) == f">={pinned('constraints-lowest.txt')[name]}"


@pytest.mark.parametrize("name", DECLARED)
def test_the_tested_version_is_allowed(name: str) -> None:
    assert DECLARED[name].specifier.contains(pinned("constraints.txt")[name])


def test_the_lowest_pins_nothing_else() -> None:
    assert pinned("constraints-lowest.txt").keys() == DECLARED.keys()
