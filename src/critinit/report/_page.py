"""A report as one page that needs nothing else: no script, no font, no request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files

from critinit.plot._style import STYLES
from critinit.profile import Profile
from critinit.report._bodies import body, titled
from critinit.report._comparison import Comparison
from critinit.report._run import Run
from critinit.report._section import Section
from critinit.report._subject import Subject, checked, how_measured, model_of
from critinit.result import Result
from critinit.scan import BatchScan


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
    parts = [*body(subject, sections), _what_was_run(subject, run)]
    heading = title or f"{run.model or model_of(subject)}, {_DONE[type(subject)]}"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">"
        f'<link rel="icon" href="data:,"><title>{escape(heading)} – critinit</title>'
        f"<style>{_colours()}{_css()}</style></head><body>"
        '<a class="skip" href="#verdict">Skip to the verdict</a>'
        f'<header><p class="kicker">critinit report, {escape(_date(run))}</p>'
        f"<h1>{escape(heading)}</h1></header><main>{''.join(parts)}</main>"
        "<footer>critinit: is a network critical at initialization? J is the average partial "
        "Jacobian norm of a block; at J = 1 gradients keep their size.</footer></body></html>\n"
    )


_DONE = {
    Profile: "measured",
    Result: "tuned",
    Comparison: "compared",
    BatchScan: "measured at several batch sizes",
}


def _what_was_run(subject: Subject, run: Run) -> str:
    facts = {
        "Model": run.model or model_of(subject),
        "Data": run.data,
        "Measured": how_measured(subject),
        "Seed": run.seed,
        "Loss": run.loss,
        "Solver": run.solver,
        **dict(run.options),
        **dict(run.versions),
        "When": _date(run),
    }
    items = "".join(
        f"<dt>{escape(str(name))}</dt><dd>{escape(str(value))}</dd>"
        for name, value in facts.items()
        if value is not None
    )
    repeat = "".join(f"<pre><code>{escape(t)}</code></pre>" for t in (run.command, run.code) if t)
    if not repeat:
        repeat = f"<pre><code>{escape(_CALLS[type(subject)])}</code></pre>"
    return titled("How to repeat it", repeat) + titled(
        "What was run", f'<dl class="card facts">{items}</dl>'
    )


_CALLS = {
    Profile: "profile = critinit.measure(model, inputs)",
    Result: "result = critinit.tune_(model, inputs)",
    Comparison: "profile = critinit.measure(model, inputs)  # of each",
    BatchScan: "scan = critinit.batch_scan(model, inputs)",
}


def _date(run: Run) -> str:
    return run.created.replace("T", " ").replace("+00:00", " UTC")


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
