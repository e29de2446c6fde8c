"""Every number of a report as a table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from critinit.plot._style import indices
from critinit.plot._ticks import written_log
from critinit.plot._values import curve
from critinit.profile import Profile
from critinit.report._comparison import Comparison
from critinit.report._section import Chart
from critinit.report._svg import swatch
from critinit.report._words import cosine, headline, key_figures
from critinit.scan import BatchScan
from critinit.solvers import Step


class Cell(str):
    """A table's cell that is HTML already."""

    __slots__ = ()


def table(
    caption: str,
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    texts: int = 1,
    key: int | None = None,
    groups: Sequence[tuple[str, int]] = (),
) -> str:
    """A table that scrolls by itself where the page is narrow.

    The first ``texts`` columns hold words, the others numbers. The row's name is in column
    ``key``, by default the last that holds words.
    ``groups`` are headings over several columns.
    """
    heads = "".join(
        f'<th scope="col"{_kind(i, texts)}>{_html(name)}</th>' for i, name in enumerate(head)
    )
    key = texts - 1 if key is None else key
    body = "".join(f"<tr>{''.join(_cells(row, texts, key))}</tr>" for row in rows)
    wide = ' class="wide"' if groups else ""
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(caption)}">'
        f"<table{wide}><caption>{escape(caption)}</caption>"
        f"<thead>{_above(groups)}<tr>{heads}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def _above(groups: Sequence[tuple[str, int]]) -> str:
    cells = "".join(
        f'<th scope="colgroup" class="group" colspan="{n}">{_html(name)}</th>'
        if name
        else f'<td colspan="{n}"></td>'
        for name, n in groups
    )
    return f"<tr>{cells}</tr>" if cells else ""


def _cells(row: Sequence[str], texts: int, key: int) -> Iterable[str]:
    for i, value in enumerate(row):
        tag = 'th scope="row"' if i == key else "td"
        yield f"<{tag}{_kind(i, texts)}>{_html(value)}</{tag[:2]}>"


def _kind(column: int, texts: int) -> str:
    return ' class="text"' if column < texts else ""


def _html(value: str) -> str:
    return value if isinstance(value, Cell) else escape(value)


def number(value: float) -> str:
    """Three digits; a dash where there is no number.

    >>> number(1.0), number(0.05791), number(123.4), number(0.0)
    ('1.00', '0.0579', '123', '0')
    """
    return "–" if math.isnan(value) else f"{value:#.3g}".rstrip(".") if value else "0"


def bar(log10: float, full: float = 1.0) -> Cell:
    """A bar to the left of the middle for below 1, to the right for above; full at ``10^full``."""
    share = 50 * (0.0 if math.isnan(log10) else max(-1.0, min(1.0, log10 / full)))
    side = "low" if share < 0 else "high"
    return Cell(f'<span class="heat"><i class="{side}" style="width:{abs(share):.1f}%"></i></span>')


def blocks(profiles: Mapping[str, Profile]) -> str:
    """All that was measured of each block, of profiles of the same network."""
    names = next(iter(profiles.values())).names
    own = ["J", "±", "log J", "product of J", "K", "cosine"]
    head = ["l", "block", *own * len(profiles)]
    rows = [["", "(input)"], *([str(i), name] for i, name in enumerate(names))]
    for profile in profiles.values():
        for i, row in enumerate(rows):
            row.extend(_measured(profile, i - 1))
    groups = [("", 2), *((name, len(own)) for name in profiles)] if len(profiles) > 1 else []
    caption = "Every block: K and the cosine are those behind it. The bar is full at a factor of 10"
    return table(caption, head, rows, texts=2, groups=groups)


def _measured(profile: Profile, i: int) -> list[str]:
    behind = [number(float(profile.kernel[i + 1])), cosine(float(profile.correlation[i + 1]))]
    if i < 0:
        return ["", "", "", "", *behind]
    product = curve(profile, "product")
    so_far = written_log(product.y[i - product.x[0]]) if i in product.x else ""
    j = [number(float(profile.apjn[i])), number(float(profile.apjn_se[i]))]
    return [*j, bar(float(profile.apjn[i].double().log10())), so_far, *behind]


def multipliers(values: Mapping[str, float]) -> tuple[str, int]:
    """By layer: what each parameter tensor was multiplied by. And the number of rows."""
    layers: dict[str, dict[str, float]] = {}
    for name, a in values.items():
        layer, _, parameter = name.rpartition(".")
        layers.setdefault(layer or "(the model itself)", {})[parameter] = a
    full = max([0.3, *(abs(math.log10(abs(a))) for a in values.values() if a)])
    rows = [_layer(layer, own, full) for layer, own in layers.items()]
    caption = f"1 is unchanged. The bars show log a: full at a factor of {10**full:.2g}"
    head = ["layer", "weight", "log a", "bias", "log a", "other"]
    used = [i for i in range(len(head)) if any(row[i] for row in rows)]
    shown = [[row[i] for i in used] for row in rows]
    return table(caption, [head[i] for i in used], shown), len(rows)


def _layer(name: str, own: Mapping[str, float], full: float) -> list[str]:
    row = [name]
    for parameter in ("weight", "bias"):
        a = own.get(parameter)
        row += ["", ""] if a is None else [_multiplier(a), bar(_log10(a), full)]
    others = (f"{p} {_multiplier(a)}" for p, a in own.items() if p not in ("weight", "bias"))
    return [*row, ", ".join(others)]


def _multiplier(a: float) -> str:
    return "1" if a == 1 else number(a)


def _log10(a: float) -> float:
    return math.log10(abs(a)) if a else -math.inf


def history(steps: Sequence[Step]) -> str:
    """The tuning, line by line."""
    rows = []
    for i, step in enumerate(steps):
        js = [j for j in step.apjn if not math.isnan(j)]
        ends = sorted({number(min(js)), number(max(js))}, key=float) if js else ["–"]
        rows.append([str(i), step.block or "(all)", number(step.loss), " … ".join(ends)])
    return table("Every step of the tuning", ["step", "block", "loss", "J"], rows, texts=2)


_FIGURES = ("J farthest from 1", "gradient norm", "K at the end", "cosine")


def comparison(given: Comparison) -> str:
    """One line a method."""
    figures = {name: key_figures(p) for name, p in given.profiles.items()}
    looks = indices(list(given.profiles))
    rows: list[list[str]] = []
    for (name, profile), look in zip(given.profiles.items(), looks, strict=True):
        named = Cell(f"{swatch(look)}{escape(name)}")
        row = [named, headline(profile), *figures[name].values()]
        rows.append([*row, _seconds(given, name)] if given.seconds else row)
    for name, why in given.failed.items():
        row = [name, f"did not work: {why}", *[""] * len(_FIGURES)]
        rows.append([*row, _seconds(given, name)] if given.seconds else row)
    head = ["method", "state", *_FIGURES, *(["seconds"] if given.seconds else [])]
    return table("All methods", head, rows, texts=2, key=0)


def _seconds(given: Comparison, name: str) -> str:
    return number(given.seconds.get(name, math.nan))


def scan(given: BatchScan) -> str:
    """One line a batch size."""
    first = given.profiles[0]
    names = [n for n, hidden in zip(first.names, first.is_hidden, strict=True) if hidden]
    rows = []
    for i, size in enumerate(given.sizes):
        worst = int(given.gap[i].abs().argmax())
        gap, se = float(given.gap[i, worst].abs()), float(given.gap_se[i, worst])
        last = size == given.sizes[-1]
        cells = (
            ["–", "–", "the measure", "–"]
            if last
            else [number(gap), number(se), "yes" if given.agrees[i] else "no", names[worst]]
        )
        rows.append([str(size), str(given.examples[i]), *cells])
    head = ["|B|", "examples", "|Δ log J|", "±", "agrees", "worst block"]
    notes = "".join(
        f"<li>|B| = {size} was left out: {escape(why)}.</li>"
        for size, why in given.left_out.items()
    )
    listed = f'<ul class="notes">{notes}</ul>' if notes else ""
    return table("All batch sizes", head, rows) + listed


def numbers_of(chart: Chart) -> str:
    """The points of a chart: a column for each line."""
    xs = sorted({x for line in chart.lines for x in line.x})
    columns = [dict(zip(line.x, line.y, strict=True)) for line in chart.lines]
    rows = [[f"{x:g}", *(number(c.get(x, math.nan)) for c in columns)] for x in xs]
    return table(chart.title, [chart.x, *(line.name for line in chart.lines)], rows)
