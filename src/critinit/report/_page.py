"""A report as one page that needs nothing else: no script, no font, no request."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files

from critinit.plot._style import STYLES
from critinit.plot._values import QUANTITIES, Quantity
from critinit.profile import Profile
from critinit.report import _panels, _tables, _words
from critinit.report._comparison import Comparison
from critinit.report._panel import Panel
from critinit.report._run import Run
from critinit.report._section import ReportError, Section
from critinit.report._svg import figure
from critinit.result import Result
from critinit.scan import BatchScan

Subject = Profile | Result | Comparison | BatchScan

_TONES: dict[_words.Kind, str] = {
    "critical": "good",
    "noisy": "good",
    "nearly": "mild",
    "uneven": "mild",
    "vanishing": "bad",
    "exploding": "bad",
    "blocked": "bad",
}
_SIGNS = {"good": "✓", "mild": "≈", "bad": "✗"}


def html(
    subject: Subject | Mapping[str, Profile],
    *,
    run: Run | None = None,
    sections: Sequence[Section] = (),
    title: str | None = None,
) -> str:
    """A self-contained page about a profile, a tuning, a comparison or a scan of batch sizes.

    Args:
        subject: What to report on. A mapping of named profiles is a `Comparison`.
        run: What was run, and the command that repeats it.
        sections: More to show, behind the verdict and before the tables.
        title: Instead of the model's name.

    >>> import torch, critinit
    >>> from critinit.models import mlp
    >>> page = html(critinit.measure(mlp(64, 4), torch.randn(8, 784)))
    >>> "Gradients vanish" in page
    True
    """
    subject = checked(subject)
    run = Run() if run is None else run
    parts = [*_body(subject, run, sections)]
    heading = title or f"{model_of(subject)} {_DONE[type(subject)]}"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">"
        f'<link rel="icon" href="data:,"><title>{escape(heading)} – critinit</title>'
        f"<style>{_colours()}{_css()}</style></head><body>"
        '<a class="skip" href="#verdict">Skip to the verdict</a>'
        f'<header><p class="kicker">critinit report, {escape(run.created)}</p>'
        f"<h1>{escape(heading)}</h1></header><main>{''.join(parts)}</main>"
        "<footer>critinit: is a network critical at initialization? J is the average partial "
        "Jacobian norm of a block; at J = 1 gradients keep their size.</footer></body></html>\n"
    )


_DONE = {
    Profile: "measured",
    Result: "tuned",
    Comparison: "compared",
    BatchScan: "at several batch sizes",
}


def checked(subject: Subject | Mapping[str, Profile]) -> Subject:
    """A subject of a report; a mapping becomes a comparison."""
    if isinstance(subject, Profile | Result | Comparison | BatchScan):
        return subject
    if isinstance(subject, Mapping) and all(isinstance(p, Profile) for p in subject.values()):
        return Comparison(subject)
    raise ReportError(
        f"a {type(subject).__name__} cannot be reported on. Pass a Profile, a Result, a "
        "BatchScan, a Comparison, or a mapping of names to profiles."
    )


def model_of(subject: Subject) -> str:
    """The model's class name."""
    if isinstance(subject, Profile):
        return subject.model
    if isinstance(subject, Result):
        return subject.before.model
    if isinstance(subject, BatchScan):
        return subject.profiles[0].model
    models = dict.fromkeys(p.model for p in subject.profiles.values())
    return ", ".join(models)


def _body(subject: Subject, run: Run, sections: Sequence[Section]) -> Iterator[str]:
    added = "".join(_section(section, i) for i, section in enumerate(sections))
    if isinstance(subject, Profile):
        yield from _of_profile(subject, added)
    elif isinstance(subject, Result):
        yield from _of_result(subject, added)
    elif isinstance(subject, Comparison):
        yield from _of_comparison(subject, added)
    else:
        yield from _of_scan(subject, added)
    yield _what_was_run(subject, run)


def _of_profile(profile: Profile, added: str) -> Iterator[str]:
    kind = _words.kind(profile)
    said = [("", _words.explanation(profile)), ("What to do", _words.advice(profile))]
    yield _verdict(_headline(profile), kind, said)
    yield _figures({label: (value, "") for label, value in _words.key_figures(profile).items()})
    yield added
    yield _by_depth({"measured": profile})
    yield _titled("Every block", _tables.blocks({"measured": profile}))


def _of_result(result: Result, added: str) -> Iterator[str]:
    before, after = result.before, result.after
    said = [
        ("Now", _words.explanation(after)),
        ("Before", [f"{_headline(before)}.", *_words.explanation(before)]),
        ("The tuning", [_sentence(result.message)]),
        ("What to do", _words.advice_after_tuning(after)),
    ]
    yield _verdict(f"{_headline(after)}, after tuning", _words.kind(after), said)
    was = _words.key_figures(before)
    yield _figures({k: (v, f"before: {was[k]}") for k, v in _words.key_figures(after).items()})
    yield added
    profiles = {"before": before, "after": after}
    yield _by_depth(profiles)
    yield _titled("The tuning", _history(result))
    yield _titled(
        "Multipliers by layer",
        _grid([_panels.multipliers(result.multipliers)], "multipliers")
        + _tables.multipliers(result.multipliers),
    )
    yield _titled("Every block", _tables.blocks(profiles))


def _of_comparison(given: Comparison, added: str) -> Iterator[str]:
    best = given.profiles[given.best]
    said = [("", [_sentence(given.verdict())]), (given.best, _words.explanation(best))]
    yield _verdict(f"{_headline(best)}: {given.best}", _words.kind(best), said)
    yield _titled("Side by side", _tables.comparison(given))
    yield added
    yield _by_depth(given.profiles)
    tables = (
        f"<details><summary>{escape(name)}: {len(p)} blocks</summary>{_tables.blocks({name: p})}"
        "</details>"
        for name, p in given.profiles.items()
    )
    yield _titled("Every block", "".join(tables))


def _of_scan(scan: BatchScan, added: str) -> Iterator[str]:
    agrees = scan.recommended < scan.sizes[-1]
    headline = f"Use batches of {scan.recommended}"
    said = [("", [_sentence(scan.verdict())])]
    yield _verdict(headline, "critical" if agrees else "uneven", said)
    yield added
    yield _titled("J against |B|", _grid([_panels.scan_gaps(scan), _panels.scan_curves(scan)], "b"))
    yield _titled("Every batch size", _tables.scan(scan))
    largest = {f"|B| = {scan.sizes[-1]}": scan.profiles[-1]}
    yield _by_depth({f"|B| = {s}": p for s, p in _ends(scan)})
    yield _titled("Every block at the largest size", _tables.blocks(largest))


def _ends(scan: BatchScan) -> list[tuple[int, Profile]]:
    """The smallest size, the recommended one and the largest."""
    chosen = {scan.sizes[0], scan.recommended, scan.sizes[-1]}
    return [(s, p) for s, p in zip(scan.sizes, scan.profiles, strict=True) if s in chosen]


def _headline(profile: Profile) -> str:
    kind = _words.kind(profile)
    if kind == "blocked":
        return f"{_words.HEADLINES[kind]} block {_words.worst(profile)}"
    return _words.HEADLINES[kind]


def _sentence(text: str) -> str:
    """With a capital and a full stop."""
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _verdict(headline: str, kind: _words.Kind, said: Iterable[tuple[str, Sequence[str]]]) -> str:
    tone = _TONES[kind]
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
    return _titled(
        "Block by block", _grid([_panels.by_depth(profiles, q) for q in wanted], "depth")
    )


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
    return _titled(section.title, f'<div class="prose">{paragraphs}</div>{charts}{numbers}')


def _titled(title: str, content: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{content}</section>"


def _grid(panels: Sequence[Panel], name: str) -> str:
    if not panels:
        return ""
    drawn = "".join(figure(panel, f"{name}-{i}") for i, panel in enumerate(panels))
    return f'<div class="panels">{drawn}</div>'


def _what_was_run(subject: Subject, run: Run) -> str:
    facts = {
        "Model": run.model or model_of(subject),
        "Data": run.data,
        "Measured": _how_measured(subject),
        "Seed": run.seed,
        "Loss": run.loss,
        "Solver": run.solver,
        **dict(run.options),
        **dict(run.versions),
        "When": run.created,
    }
    items = "".join(
        f"<dt>{escape(str(name))}</dt><dd>{escape(str(value))}</dd>"
        for name, value in facts.items()
        if value is not None
    )
    repeat = "".join(f"<pre><code>{escape(t)}</code></pre>" for t in (run.command, run.code) if t)
    if not repeat:
        repeat = f"<pre><code>{escape(_CALLS[type(subject)])}</code></pre>"
    return _titled("How to repeat it", repeat) + _titled(
        "What was run", f'<dl class="card facts">{items}</dl>'
    )


_CALLS = {
    Profile: "profile = critinit.measure(model, inputs)",
    Result: "result = critinit.tune_(model, inputs)",
    Comparison: "profile = critinit.measure(model, inputs)  # of each",
    BatchScan: "scan = critinit.batch_scan(model, inputs)",
}


def _how_measured(subject: Subject) -> str:
    if isinstance(subject, Result):
        return f"before: {_how(subject.before)}; after: {_how(subject.after)}"
    if isinstance(subject, Profile):
        return _how(subject)
    if isinstance(subject, BatchScan):
        return _how(subject.profiles[-1])
    return _how(next(iter(subject.profiles.values())))


def _how(profile: Profile) -> str:
    noun = "batch" if profile.batches == 1 else "batches"
    plural = "" if profile.probes == 1 else "s"
    probes = "" if profile.method == "exact" else f", {profile.probes} probe{plural} for each J"
    span = "" if profile.span == 1 else f", each J over {profile.span} blocks"
    return (
        f"{len(profile)} blocks, {profile.batches} {noun} of {profile.batch_size}, "
        f"{profile.method}{probes}{span}"
    )


def _css() -> str:
    return files("critinit.report").joinpath("page.css").read_text(encoding="utf-8")


def _colours() -> str:
    """The looks of `critinit.plot` as variables of both schemes."""

    def rule(of: Iterable[str]) -> str:
        return ":root{" + "".join(f"--s{i}:{colour};" for i, colour in enumerate(of)) + "}"

    dark = rule(style.on_dark for style in STYLES)
    classes = "".join(f".s{i}{{color:var(--s{i})}}" for i in range(len(STYLES)))
    light = rule(style.colour for style in STYLES)
    return f"{light}@media screen and (prefers-color-scheme:dark){{{dark}}}{classes}\n"
