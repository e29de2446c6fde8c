"""What a page says, and that it is one page, well formed, and safe whatever the names are."""

from __future__ import annotations

import re
from dataclasses import replace
from html import escape, unescape
from html.parser import HTMLParser
from typing import Any

import pytest
from report.subjects import (
    SUBJECTS,
    Odd,
    compared,
    dead,
    deep,
    measured,
    odd,
    profile_of,
    scanned,
    single,
    tuned,
)

from critinit.report import Chart, Line, ReportError, Run, Section, html

VOID = {"meta", "link", "br", "hr", "img", "input"}
NUMBER = re.compile(r"[-\d.]+(?:e[-+]?\d+)?")


class Outline(HTMLParser):
    """Checks that every element is closed where it must be, and gathers what the page holds."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)
        self.close()
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), f"{tag} {attrs}"
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def attributes(self, name: str) -> list[str]:
        return [value for _, attrs in self.tags if (value := attrs.get(name)) is not None]


def words(page: str) -> str:
    """The text of a page, without what a machine reads."""
    body = re.sub(r"<(style|svg).*?</\1>", " ", page, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", body)).split())


@pytest.mark.parametrize("name", list(SUBJECTS))
def test_the_page_is_well_formed_and_needs_nothing_else(name: str) -> None:
    page = html(SUBJECTS[name]())
    outline = Outline(page)
    assert not {"script", "img", "iframe", "object", "form"} & {tag for tag, _ in outline.tags}
    assert all(link.startswith("#") or link == "data:," for link in outline.attributes("href"))
    assert not outline.attributes("src")
    assert "url(" not in page
    assert "@import" not in page
    ids = outline.attributes("id")
    assert len(ids) == len(set(ids))
    for labels in outline.attributes("aria-labelledby"):
        assert set(labels.split()) <= set(ids)


@pytest.mark.parametrize("name", list(SUBJECTS))
def test_all_that_is_drawn_is_on_the_drawing(name: str) -> None:
    """No NaN, no infinity, nothing outside the frame."""
    for tag, attrs in Outline(html(SUBJECTS[name]())).tags:
        if tag in ("path", "text", "rect"):
            drawn = " ".join(attrs.get(k) or "" for k in ("d", "x", "y", "width", "height"))
            assert "nan" not in drawn
            assert "inf" not in drawn
            found = [float(n) for n in NUMBER.findall(drawn.replace("-", " -"))]
            assert all(-10 <= n <= 450 for n in found), drawn


@pytest.mark.parametrize("name", list(SUBJECTS))
def test_every_drawing_has_a_title_and_a_description(name: str) -> None:
    page = html(SUBJECTS[name]())
    for drawing in re.findall(r'<svg [^>]*role="img".*?</svg>', page, re.DOTALL):
        assert re.search(r"<title id=[^>]*>\S", drawing)
        assert re.search(r"<desc id=[^>]*>\S", drawing)
    assert 'role="img"' in page


def test_names_are_escaped() -> None:
    run = Run(command="critinit tune '<x>&y'", model="<m&>", options={"<o>": "<v>"})
    section = Section("<t>", "<p>&", [Chart("<c>", "<x>", "<y>", [Line("<l>", [0, 1], [1, 2])])])
    page = html(odd(), run=run, sections=[section])
    text = words(page)
    for name in [*Odd.NAMES, "critinit tune '<x>&y'", "<m&>", "<o>", "<v>", "<t>", "<p>&", "<c>"]:
        assert escape(name) in page
        assert name in text
    assert "<script" not in page
    Outline(page)


def test_the_verdict_comes_first_and_says_what_to_do() -> None:
    text = words(html(measured()))
    assert text.index("Gradients vanish") < text.index("What to do") < text.index("Block by block")
    assert "5 blocks: 1–5" in text
    assert "critinit.tune_(model, batch)" in text


def test_every_number_of_a_profile_is_in_the_table() -> None:
    profile = measured()
    text = words(html(profile))
    for values in (profile.apjn, profile.apjn_se, profile.kernel):
        for value in values.tolist():
            assert f"{value:#.3g}".rstrip(".") in text


def test_a_result_shows_before_and_after_multipliers_and_history() -> None:
    page = html(tuned())
    text = words(page)
    for part in ("After tuning: critical", "Before", "Multipliers by layer", "Every block"):
        assert part in text
    for a in tuned().multipliers.values():
        assert f"{a:#.3g}" in text or a == 1
    for step in tuned().history:
        assert step.block is None or step.block in text
    assert page.count('class="s0 hollow"') >= 4, "before"
    assert page.count('class="s1"') >= 4, "after"


def test_one_marker_and_one_error_bar_for_each_block() -> None:
    page = html(profile_of([0.5, 0.9, 1.2, 3.0]))
    first = page[page.index("<svg viewBox") : page.index("</svg>")]
    assert first.count('class="mark') == 4
    bars = re.search(r'class="bar" d="([^"]*)"', first)
    assert bars is not None
    assert bars.group(1).count("M") == 4
    assert "layer3): 3 ± 0.03" in first


def test_what_is_zero_is_marked_at_the_edge() -> None:
    page = html(dead())
    assert "No gradient passes block 5 (11)" in words(page)
    assert "▼ at the lower edge: J = 0" in words(page)
    assert 'class="mark edge"' in page
    assert "edge" not in html(measured()).split("</style>")[1]


def test_products_beyond_what_a_float_holds() -> None:
    text = words(html(deep()))
    assert "1.00·10⁻⁷⁹⁸" in text
    assert "÷ 1.00·10³⁹⁹" in text


def test_one_block_and_one_example() -> None:
    text = words(html(single()))
    assert "1 block, 1 batch of 1" in text
    assert "Cosine between" not in text


def test_a_comparison_shows_all_methods_and_those_that_failed() -> None:
    text = words(html(compared()))
    assert "Best is <b>kaiming" in text
    for part in ("default", "0.250", "lsuv did not work: no <weight> & such"):
        assert part in text
    assert "Best is <b>kaiming" in words(html(compared().profiles))


def test_a_scan_says_which_size_to_use_and_what_was_left_out() -> None:
    text = words(html(scanned()))
    assert f"Use batches of {scanned().recommended}" in text
    assert "|B| = 64 was left out: only 32 examples were given." in text


def test_how_to_repeat_it() -> None:
    run = Run(command="critinit measure mlp --seed 3", model="mlp", data="digits", seed=3)
    text = words(html(measured(), run=run))
    for part in (run.command, "mlp, measured", "digits", "Seed 3", "torch"):
        assert str(part) in text
    assert "critinit.measure(model, inputs)" in words(html(measured()))
    assert "My title" in words(html(measured(), title="My title"))


def test_sections_stand_between_the_verdict_and_the_profiles() -> None:
    lines = [Line("before", [0, 10], [0.1, 0.1]), Line("after", [0, 5, 10], [0.1, 0.5, 0.9])]
    section = Section("Training", "One.\n\nTwo.", [Chart("Accuracy", "step", "share", lines)])
    page = html(tuned(), sections=[section])
    text = words(page)
    assert text.index("Training One. Two.") < text.index("Block by block")
    assert "step before after 0 0.100 0.100 5 – 0.500 10 0.100 0.900" in text
    with pytest.raises(ReportError, match="3 x and 2 y"):
        Line("bad", [0, 1, 2], [0, 1])


CASES: dict[str, tuple[Any, str, str]] = {
    "critical": (profile_of([0.2, 1.0, 1.05]), "✓ Critical", "train it"),
    "noisy": (profile_of([1, 1.0, 1.2], se=0.1), "✓ Critical within", "J above 1.1 in block 2"),
    "nearly": (profile_of([1, 1.0, 1.2]), "≈ Nearly critical", "Tune it"),
    "exploding": (profile_of([1, 30.0, 30.0]), "✗ Gradients explode", "grows by a factor of 30:"),
    "vanishing": (profile_of([1, 0.5, 0.5, 0.2]), "✗ Gradients vanish", "factor of 4.47."),
    "uneven": (profile_of([1, 0.5, 2.0]), "≈ Uneven from block to block", "Exploding (J above"),
    "blocked": (profile_of([1, 1.0, 0.0]), "≈ No gradient passes block 2 (layer2)", "zero head"),
    "blocked and more": (
        profile_of([1, 0.1, 0.0, 0.0]),
        "✗ No gradient passes 2 blocks",
        "Tune it",
    ),
    "alike": (profile_of([1, 1.0, 1.0], end=0.99), "✓ Critical", "nearly the same (cosine 0.99)"),
}


@pytest.mark.parametrize("name", list(CASES))
def test_verdicts(name: str) -> None:
    profile, headline, said = CASES[name]
    text = words(html(profile))
    assert headline in text
    assert said in text
    after = words(html(replace(tuned(), before=profile, after=profile)))
    assert f"After tuning: {headline[2].lower()}{headline[3:]}" in after


def test_the_same_subject_gives_the_same_page() -> None:
    run = Run(created="2024-05-06T07:08:09+00:00")
    assert html(tuned(), run=run) == html(tuned(), run=run)
    assert "2024-05-06 07:08:09 UTC" in html(tuned(), run=run)
