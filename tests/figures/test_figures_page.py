"""The page on figures says what the committed tables say; ``--renew-golden`` writes it anew."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from asserts import assert_same_text

from critinit.figures import find, names
from critinit.figures._cost import cost
from critinit.figures._run import table_of
from critinit.figures._table import Table, fingerprint

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/figures.md"
KEPT = ROOT / "docs/figures"
LARGEST = 200_000  # bytes of a picture
SHOWN = r"critinit figure {}\b[^`]*```\n+```text\n(.*?)```"
NAMES = [n for n in names() if re.search(SHOWN.format(n), PAGE.read_text(), re.DOTALL)]


def test_every_figure_has_a_section() -> None:
    headings = re.findall(r"^## (.*)$", PAGE.read_text(), re.MULTILINE)
    assert {name for heading in headings for name in heading.split(", ")} == set(names())
    assert set(NAMES) == set(names())


def kept_table(name: str) -> Table:
    """The one of the settings as they are now."""
    figure = find(name)
    settings = figure.settings["small"]
    return table_of(figure, settings, KEPT / f"{name}-small-{fingerprint(settings)}.csv")


def said(name: str) -> re.Match[str]:
    """The block of output below the figure's command."""
    block = re.search(SHOWN.format(name), PAGE.read_text(), re.DOTALL)
    assert block
    return block


@pytest.mark.parametrize("name", NAMES)
def test_findings_are_those_of_the_table(name: str, request: pytest.FixtureRequest) -> None:
    figure, table = find(name), kept_table(name)
    settings, rows = figure.settings["small"], table.rows()
    if "runs" not in settings:  # else the points are what was run elsewhere
        assert not table.missing(figure.points(settings))
    found = "\n".join([*figure.findings(settings, rows), cost(figure, "small", settings, rows), ""])
    if request.config.getoption("--renew-golden"):
        start, end = said(name).span(1)
        text = PAGE.read_text()
        PAGE.write_text(text[:start] + found + text[end:])
    # an orbit of the dynamics at the edge of chaos ends where rounding errors take it
    assert_same_text(found, said(name)[1], relative=0.005, absolute=0.0)


@pytest.mark.parametrize("name", NAMES)
def test_picture_is_there_and_small(name: str) -> None:
    picture = KEPT / f"{name}-small.png"
    assert f"(figures/{picture.name})" in PAGE.read_text()
    assert 1000 < picture.stat().st_size < LARGEST


def test_no_table_is_left_over() -> None:
    assert {path.name for path in KEPT.glob("*.csv")} == {
        kept_table(name).path.name for name in NAMES
    }
