"""The page in a real browser: in both schemes, on a phone and on paper."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from report.browser import HOW_TO_INSTALL, PROGRAM, Browser
from report.subjects import SUBJECTS

from critinit.report import Chart, Line, Section, html

SECTION = Section(
    "Training",
    "Two networks.",
    [Chart("Loss", "step", "loss", [Line("before", range(300), range(1, 301))], log=True)],
)

# text whose colour is too near to that behind it (WCAG AA: 4.5, or 3 where it is large)
CONTRAST = """
(() => {
  const channels = c => c.match(/[\\d.]+/g).map(Number);
  const light = c => channels(c).slice(0, 3).map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = e => {
    for (; e; e = e.parentElement) {
      const c = getComputedStyle(e).backgroundColor;
      if ((channels(c)[3] ?? 1) > 0) return c;
    }
  };
  const bad = [];
  for (const e of document.querySelectorAll('body *')) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
    if (['title', 'desc'].includes(e.tagName) || !e.checkVisibility()) continue;
    const style = getComputedStyle(e);
    const front = e instanceof SVGElement ? style.fill : style.color;
    const [a, b] = [light(front), light(behind(e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    if (ratio < (large ? 3 : 4.5)) bad.push(`${e.textContent.trim()}: ${ratio.toFixed(2)}`);
  }
  return bad;
})()
"""
TOO_WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
SCHEME = "getComputedStyle(document.body).backgroundColor"
TEXT_SIZE = """
Math.min(...[...document.querySelectorAll('svg text')].map(
  t => parseFloat(getComputedStyle(t).fontSize) * t.getScreenCTM().a))
"""
BROKEN_TEXT = """
[...document.querySelectorAll('svg text')].filter(t => {
  const own = t.getBoundingClientRect(), all = t.ownerSVGElement.getBoundingClientRect();
  return own.left < all.left - 1 || own.right > all.right + 1;
}).map(t => t.textContent)
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if PROGRAM is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(HOW_TO_INSTALL)
    with Browser() as found:
        yield found


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    written = {}
    for name, subject in SUBJECTS.items():
        written[name] = folder / f"{name}.html"
        written[name].write_text(html(subject(), sections=[SECTION]), encoding="utf-8")
    return written


@pytest.mark.parametrize("name", list(SUBJECTS))
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1100, 360], ids=["desktop", "phone"])
def test_the_page_in_a_browser(
    browser: Browser, pages: dict[str, Path], name: str, dark: bool, width: int
) -> None:
    browser.open(pages[name], width=width, dark=dark)
    browser.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.evaluate(TOO_WIDE) <= 0, "the page scrolls sideways"
    assert browser.evaluate(CONTRAST) == []
    assert browser.evaluate(BROKEN_TEXT) == []
    assert browser.evaluate(TEXT_SIZE) >= 9, "text in a drawing is too small"
    assert browser.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") is dark
    background = [int(v) for v in browser.evaluate(SCHEME)[4:-1].split(",")]
    assert (sum(background) < 384) is dark
    assert browser.complaints == []
    assert browser.requests == [pages[name].resolve().as_uri()]


def test_the_page_on_paper(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["tuned by a sweep"], dark=True)
    browser.call("Emulation.setEmulatedMedia", media="print")
    assert browser.evaluate("getComputedStyle(document.body).color") == "rgb(27, 36, 48)"
    assert browser.pdf().startswith(b"%PDF")
    browser.open(pages["tuned by a sweep"])


def test_the_browser_notices_what_it_should(browser: Browser, tmp_path: Path) -> None:
    """The checks above can fail."""
    page = tmp_path / "bad.html"
    page.write_text(
        '<body style="background:#fff"><p style="color:#999;width:9000px">faint</p>'
        '<svg viewBox="0 0 10 10" width="100"><text x="9" font-size="1">long</text></svg>'
        '<script>console.error("no")</script><img src="missing.png">'
    )
    browser.open(page)
    assert browser.evaluate(CONTRAST) == ["faint: 2.85"]
    assert browser.evaluate(TOO_WIDE) > 0
    assert browser.evaluate(BROKEN_TEXT) == ["long"]
    assert any("no" in line for line in browser.complaints)
    assert any(url.endswith("missing.png") for url in browser.requests)
