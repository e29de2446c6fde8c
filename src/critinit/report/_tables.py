"""Every number of a report as a table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from critinit.plot._style import indices
from critinit.plot._values import curve
from critinit.profile import Profile
from critinit.report._comparison import Comparison
from critinit.report._section import Chart
from critinit.report._svg import swatch
from critinit.report._ticks import written_log
from critinit.report._words import HEADLINES, key_figures, kind
from critinit.scan import BatchScan
from critinit.solvers import Step


class Cell(str):
    """A table's cell that is HTML already."""

    __slots__ = ()


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], texts: int = 1) -> str:
    """A table that scrolls by itself where the page is narrow.

    The first ``texts`` columns hold words, the last of them the row's name; the others numbers.
    """
    heads = "".join(
        f'<th scope="col"{_kind(i, texts)}>{_html(name)}</th>' for i, name in enumerate(head)
    )
    body = "".join(f"<tr>{''.join(_cells(row, texts))}</tr>" for row in rows)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(caption)}"><table>'
        f"<caption>{escape(caption)}</caption><thead><tr>{heads}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def _cells(row: Sequence[str], texts: int) -> Iterable[str]:
    for i, value in enumerate(row):
        tag = 'th scope="row"' if i == texts - 1 else "td"
        yield f"<{tag}{_kind(i, texts)}>{_html(value)}</{tag.split()[0]}>"


def _kind(column: int, texts: int) -> str:
    return ' class="text"' if column < texts else ""


def _html(value: str) -> str:
    return value if isinstance(value, Cell) else escape(value)


def number(value: float) -> str:
    """Three digits; a dash where there is no number."""
    return "–" if math.isnan(value) else f"{value:.3g}"


def bar(log10: float, full: float = 1.0) -> Cell:
    """A bar to the left of the middle for below 1, to the right for above; full at ``10^full``."""
    share = 50 * (0.0 if math.isnan(log10) else max(-1.0, min(1.0, log10 / full)))
    side = "low" if share < 0 else "high"
    return Cell(f'<span class="heat"><i class="{side}" style="width:{abs(share):.1f}%"></i></span>')


def blocks(profiles: Mapping[str, Profile]) -> str:
    """All that was measured of each block, of profiles of the same network."""
    first = next(iter(profiles.values()))
    several = len(profiles) > 1
    suffix = {name: f" {name}" if several else "" for name in profiles}
    head = ["l", "block"]
    for name in profiles:
        s = suffix[name]
        head += [f"J{s}", "±", "log J"]
    head += [f"J product{suffix[n]}" for n in profiles]
    head += [f"K{suffix[n]}" for n in profiles]
    head += [f"cosine{suffix[n]}" for n in profiles]
    start = ["", "(input)", *["", "", ""] * len(profiles), *[""] * len(profiles)]
    start += [number(float(p.kernel[0])) for p in profiles.values()]
    start += [number(float(p.correlation[0])) for p in profiles.values()]
    rows = [start, *(_block(i, name, profiles.values()) for i, name in enumerate(first.names))]
    return table("K and the cosine are those behind the block", head, rows, texts=2)


def _block(i: int, name: str, profiles: Iterable[Profile]) -> list[str]:
    row, products, kernels, cosines = [str(i), name], [], [], []
    for p in profiles:
        row += [number(float(p.apjn[i])), number(float(p.apjn_se[i]))]
        row += [bar(float(p.apjn[i].double().log10()))]
        product = curve(p, "product")
        products.append(written_log(product.y[i - product.x[0]]) if i in product.x else "")
        kernels.append(number(float(p.kernel[i + 1])))
        cosines.append(number(float(p.correlation[i + 1])))
    return [*row, *products, *kernels, *cosines]


def multipliers(values: Mapping[str, float]) -> str:
    """By layer: what each parameter tensor was multiplied by."""
    full = max([0.3, *(abs(math.log10(abs(a))) for a in values.values() if a)])
    rows, before = [], None
    for name, a in values.items():
        layer, _, parameter = name.rpartition(".")
        shown = "" if layer == before else layer or "(the model itself)"
        before = layer
        log = math.log10(abs(a)) if a else -math.inf
        rows.append([shown, parameter, number(a), bar(log, full)])
    caption = f"The bar shows log a: full at a factor of {10**full:.2g}"
    return table(caption, ["layer", "parameter", "a", "log a"], rows, texts=2)


def history(steps: Sequence[Step]) -> str:
    """The tuning, line by line."""
    rows = []
    for i, step in enumerate(steps):
        js = [j for j in step.apjn if not math.isnan(j)]
        ends = sorted({number(min(js)), number(max(js))}, key=float) if js else ["–"]
        rows.append([str(i), step.block or "(all)", number(step.loss), " … ".join(ends)])
    return table("Every step of the tuning", ["step", "block", "loss", "J"], rows, texts=2)


def comparison(given: Comparison) -> str:
    """One line a method."""
    figures = {name: key_figures(p) for name, p in given.profiles.items()}
    labels = list(next(iter(figures.values())))
    looks = indices(list(given.profiles))
    rows: list[list[str]] = []
    for (name, profile), look in zip(given.profiles.items(), looks, strict=True):
        named = Cell(f"{swatch(look)}{escape(name)}")
        row = [named, HEADLINES[kind(profile)], *(figures[name][label] for label in labels)]
        rows.append([*row, _seconds(given, name)] if given.seconds else row)
    for name, why in given.failed.items():
        row = [name, f"did not work: {why}", *[""] * len(labels)]
        rows.append([*row, _seconds(given, name)] if given.seconds else row)
    head = ["method", "state", *labels, *(["seconds"] if given.seconds else [])]
    return table("All methods", head, rows)


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
    rows += [
        [str(size), "–", "–", "–", f"left out: {why}", "–"] for size, why in given.left_out.items()
    ]
    head = ["|B|", "examples", "|Δ log J|", "±", "agrees", "worst block"]
    return table("All batch sizes", head, rows)


def numbers_of(chart: Chart) -> str:
    """The points of a chart: a column for each line."""
    xs = sorted({x for line in chart.lines for x in line.x})
    columns = [dict(zip(line.x, line.y, strict=True)) for line in chart.lines]
    rows = [[f"{x:g}", *(number(c.get(x, math.nan)) for c in columns)] for x in xs]
    return table(chart.title, [chart.x, *(line.name for line in chart.lines)], rows)
