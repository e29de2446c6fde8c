"""What stands in a report of each kind, from the verdict to the last table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape

from critinit.plot._values import QUANTITIES, Quantity
from critinit.profile import Profile
from critinit.report import _panels, _tables, _words
from critinit.report._comparison import Comparison
from critinit.report._panel import Panel
from critinit.report._section import Section
from critinit.report._subject import Subject
from critinit.report._svg import figure
from critinit.result import Result
from critinit.scan import BatchScan

_MOST_OPEN = 30  # rows of a table that is shown without being asked for

_SIGNS: dict[_words.Tone, str] = {"good": "✓", "mild": "≈", "bad": "✗"}


def body(subject: Subject, sections: Sequence[Section]) -> Iterator[str]:
    """The parts of the page about ``subject``, with ``sections`` among them."""
    added = "".join(_section(section, i) for i, section in enumerate(sections))
    if isinstance(subject, Profile):
        yield from _of_profile(subject, added)
    elif isinstance(subject, Result):
        yield from _of_result(subject, added)
    elif isinstance(subject, Comparison):
        yield from _of_comparison(subject, added)
    else:
        yield from _of_scan(subject, added)


def _of_profile(profile: Profile, added: str) -> Iterator[str]:
    said = [("", _words.explanation(profile)), ("What to do", _words.advice(profile))]
    yield _verdict(_words.headline(profile), _words.tone(profile), said)
    yield _figures({label: (value, "") for label, value in _words.key_figures(profile).items()})
    yield added
    yield _by_depth({"measured": profile})
    yield titled("Every block", _tables.blocks({"measured": profile}))


def _of_result(result: Result, added: str) -> Iterator[str]:
    before, after = result.before, result.after
    said = [
        ("Now", _words.explanation(after)),
        ("What to do", _words.advice_after_tuning(after)),
        ("Before", [f"{_words.headline(before)}. {_words.over_the_depth(before)}"]),
        ("The tuning", [_sentence(result.message)]),
    ]
    headline = f"After tuning: {_lowered(_words.headline(after))}"
    yield _verdict(headline, _words.tone(after), said)
    was = _words.key_figures(before)
    yield _figures({k: (v, f"before: {was[k]}") for k, v in _words.key_figures(after).items()})
    yield added
    profiles = {"before": before, "after": after}
    yield _by_depth(profiles)
    yield titled("The tuning", _history(result))
    yield titled(
        "Multipliers by layer",
        _grid([_panels.multipliers(result.multipliers)], "multipliers")
        + _folded("Every multiplier", *_tables.multipliers(result.multipliers)),
    )
    yield titled("Every block", _tables.blocks(profiles))


def _of_comparison(given: Comparison, added: str) -> Iterator[str]:
    best = given.profiles[given.best]
    said = [("", _words.explanation(best))]
    headline = f"Best is {given.best}: {_lowered(_words.headline(best))}"
    yield _verdict(headline, _words.tone(best), said)
    yield titled("Side by side", _tables.comparison(given))
    yield added
    yield _by_depth(given.profiles)
    tables = (
        _folded(name, _tables.blocks({name: profile}), len(profile))
        for name, profile in given.profiles.items()
    )
    yield titled("Every block", "".join(tables))


def _of_scan(scan: BatchScan, added: str) -> Iterator[str]:
    agrees = scan.recommended < scan.sizes[-1]
    headline = f"Use batches of {scan.recommended}"
    said = [("", [_sentence(scan.verdict())])]
    yield _verdict(headline, "good" if agrees else "mild", said)
    yield added
    yield titled("J against |B|", _grid([_panels.scan_gaps(scan), _panels.scan_curves(scan)], "b"))
    yield titled("Every batch size", _tables.scan(scan))
    largest = {f"|B| = {scan.sizes[-1]}": scan.profiles[-1]}
    yield _by_depth({f"|B| = {s}": p for s, p in _ends(scan)})
    yield titled("Every block at the largest size", _tables.blocks(largest))


def _ends(scan: BatchScan) -> list[tuple[int, Profile]]:
    """The smallest size, the recommended one and the largest."""
    chosen = {scan.sizes[0], scan.recommended, scan.sizes[-1]}
    return [(s, p) for s, p in zip(scan.sizes, scan.profiles, strict=True) if s in chosen]


def _lowered(text: str) -> str:
    return text[:1].lower() + text[1:]


def _sentence(text: str) -> str:
    """With a capital and a full stop."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "…")) else ".")


def _verdict(headline: str, tone: _words.Tone, said: Iterable[tuple[str, Sequence[str]]]) -> str:
    parts = []
    for heading, lines in said:
        title = f"<h3>{escape(heading)}</h3>" if heading else ""
        items = "".join(f"<li>{escape(line)}</li>" for line in lines)
        parts.append(f"{title}<ul>{items}</ul>" if lines else "")
    return (
        f'<section id="verdict" class="card verdict {tone}"><h2>'
        f'<span aria-hidden="true">{_SIGNS[tone]} </span>{escape(headline)}</h2>'
        f"{''.join(parts)}</section>"
    )


def _figures(figures: Mapping[str, tuple[str, str]]) -> str:
    items = "".join(
        f'<div class="card"><dt>{escape(label)}</dt><dd>{escape(value)}'
        f"{f'<span class=was>{escape(was)}</span>' if was else ''}</dd></div>"
        for label, (value, was) in figures.items()
    )
    return f'<dl class="figures">{items}</dl>'


def _by_depth(profiles: Mapping[str, Profile]) -> str:
    wanted: list[Quantity] = [
        q
        for q in QUANTITIES
        if q != "correlation"
        or not all(bool(p.correlation.isnan().all()) for p in profiles.values())
    ]
    return titled("Block by block", _grid([_panels.by_depth(profiles, q) for q in wanted], "depth"))


def _history(result: Result) -> str:
    if not result.history:
        return f'<p class="prose">{escape(_sentence(result.message))}</p>'
    return (
        _grid(_panels.history(result.history), "history")
        + "<details><summary>Every step as a table</summary>"
        + f"{_tables.history(result.history)}</details>"
    )


def _section(section: Section, place: int) -> str:
    paragraphs = "".join(f"<p>{escape(p)}</p>" for p in section.text.split("\n\n") if p.strip())
    charts = _grid([_panels.from_chart(c) for c in section.charts], f"section{place}")
    tables = "".join(_tables.numbers_of(chart) for chart in section.charts)
    numbers = f"<details><summary>The numbers</summary>{tables}</details>" if tables else ""
    return titled(section.title, f'<div class="prose">{paragraphs}</div>{charts}{numbers}')


def _folded(title: str, table: str, rows: int) -> str:
    """A table that is open at once if it is not long; on paper it is open always."""
    is_open = " open" if rows <= _MOST_OPEN else ""
    summary = f"{escape(title)} ({rows} rows)"
    return f'<details class="printed"{is_open}><summary>{summary}</summary>{table}</details>'


def titled(title: str, content: str) -> str:
    """A section with its heading."""
    return f"<section><h2>{escape(title)}</h2>{content}</section>"


def _grid(panels: Sequence[Panel], name: str) -> str:
    if not panels:
        return ""
    drawn = "".join(figure(panel, f"{name}-{i}") for i, panel in enumerate(panels))
    return f'<div class="panels">{drawn}</div>'
