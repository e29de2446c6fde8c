"""Which charts a report holds, and what is in them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from critinit.plot._style import indices
from critinit.plot._ticks import written_log
from critinit.plot._values import Quantity, curve, is_log, log10s
from critinit.profile import Profile
from critinit.report._panel import Panel, Series
from critinit.report._section import Chart
from critinit.report._words import TOL
from critinit.scan import BatchScan
from critinit.solvers import Step

_BAND = TOL / math.log(10)
_MOST_LINES = 4  # of single blocks in one chart

_TITLES: dict[Quantity, tuple[str, str, str, str]] = {
    "apjn": (
        "J of every block",
        "How much a block scales the squared norm of a gradient, with one standard error. "
        "Above 1 gradients explode, below they vanish; within the band they do neither. "
        "The input block (faint) does not count.",
        "block l",
        "J",
    ),
    "product": (
        "J multiplied up over the depth",
        "The product of J from block 1 to block l. Where it ends stands what the whole depth does "
        "to the squared norm of a gradient.",
        "block l",
        "product of J",
    ),
    "kernel": (
        "K, the size of the signal",
        "The mean square of the tensor hˡ that goes into block l; the last one is the output.",
        "tensor hˡ",
        "K",
    ),
    "correlation": (
        "Cosine between different examples",
        "How alike different inputs are in the network's eyes, on average: near 1 they can no "
        "longer be told apart.",
        "tensor hˡ",
        "mean cosine",
    ),
}


def by_depth(profiles: Mapping[str, Profile], quantity: Quantity) -> Panel:
    """A quantity by depth, of each profile."""
    title, caption, x, y = _TITLES[quantity]
    looks = indices(list(profiles))
    series = [
        _series(name, look, profile, quantity)
        for (name, profile), look in zip(profiles.items(), looks, strict=True)
    ]
    log = is_log(quantity)
    level = (0.0, "J = 1" if quantity == "apjn" else "1") if log else None
    return Panel(
        title,
        caption,
        x,
        y,
        series,
        log=log,
        level=None if quantity == "kernel" else level,
        band=_BAND if quantity == "apjn" else 0.0,
        span=None if log else (0.0, 1.0),
        zero={"apjn": "J = 0, no gradient passes", "kernel": "K = 0, no signal"}.get(
            quantity, "zero from here on"
        ),
    )


def _series(name: str, look: int, profile: Profile, quantity: Quantity) -> Series:
    points = curve(profile, quantity)
    y = _up_to_first_zero(points.y) if quantity == "product" else points.y
    return Series(
        name,
        look,
        points.x,
        y,
        [] if quantity in ("kernel", "correlation") else points.low,
        [] if quantity in ("kernel", "correlation") else points.high,
        [_tip(name, profile, quantity, x, v) for x, v in zip(points.x, points.y, strict=True)],
        faint=int(quantity == "apjn" and len(profile) > 1),
    )


def _up_to_first_zero(logs: Sequence[float]) -> list[float]:
    first = next((i for i, y in enumerate(logs) if y == -math.inf), len(logs))
    return [y if i <= first else math.nan for i, y in enumerate(logs)]


def _tip(name: str, profile: Profile, quantity: Quantity, x: int, value: float) -> str:
    number = written_log(value) if is_log(quantity) else f"{value:.3g}"
    if quantity in ("kernel", "correlation"):
        place = "the input" if x == 0 else f"after {profile.names[x - 1]}"
    else:
        place = profile.names[x]
    error = f" ± {float(profile.apjn_se[x]):.2g}" if quantity == "apjn" else ""
    return f"{name}, {x} ({place}): {number}{error}"


def history(steps: Sequence[Step]) -> list[Panel]:
    """The way of the tuning: of the sweep from block to block, and of steps over all blocks."""
    own = [step for step in steps if step.block is not None]
    common = [step for step in steps if step.block is None]
    panels = []
    if own:
        tips = [f"{s.block}: J = {s.apjn[0]:.3g}, loss {s.loss:.2g}" for s in own]
        panels.append(
            Panel(
                "What each block's solution left of the loss",
                "The sweep solves block after block, from front to back; each point is one.",
                "block, in the order of the sweep",
                "loss",
                [_losses("sweep", own, tips, joined=False)],
                zero="loss 0",
            )
        )
    if len(common) > 1:
        what = "Rounds over all blocks at once, after the sweep." if own else "Steps of descent."
        panels.append(
            Panel(
                "Loss by step",
                what,
                "round" if own else "step",
                "loss",
                [_losses("loss", common)],
                zero="loss 0",
            )
        )
        panels.append(_range_of_j(common, "round" if own else "step"))
    return panels


def _losses(
    name: str, steps: Sequence[Step], tips: Sequence[str] = (), joined: bool = True
) -> Series:
    look = indices(["tuned"])[0]
    y = log10s([step.loss for step in steps])
    return Series(name, look, range(len(steps)), y, tips=tips, joined=joined)


def _range_of_j(steps: Sequence[Step], unit: str) -> Panel:
    rows = [[j for j in step.apjn[1:] or step.apjn if not math.isnan(j)] for step in steps]
    ends = {
        "largest": [max(row, default=math.nan) for row in rows],
        "smallest": [min(row, default=math.nan) for row in rows],
    }
    series = [
        Series(name, look, range(len(rows)), log10s(ends[name]))
        for name, look in zip(ends, indices(list(ends)), strict=True)
    ]
    return Panel(
        "Largest and smallest J by step",
        "Of all blocks but the input block, as the tuning saw them.",
        unit,
        "J",
        series,
        level=(0.0, "J = 1"),
        band=_BAND,
        zero="J = 0",
    )


def multipliers(values: Mapping[str, float]) -> Panel:
    """The multipliers, from the input to the output."""
    kinds: dict[str, list[int]] = {}
    names = list(values)
    for i, name in enumerate(names):
        last = name.rpartition(".")[2]
        kinds.setdefault(last if last in ("weight", "bias") else "other", []).append(i)
    logs = log10s([abs(a) for a in values.values()])
    series = [
        Series(
            kind,
            indices([kind])[0],
            places,
            [logs[i] for i in places],
            tips=[f"{names[i]}: × {values[names[i]]:.3g}" for i in places],
            joined=False,
        )
        for kind, places in kinds.items()
    ]
    return Panel(
        "Multipliers",
        "By what each parameter tensor was multiplied, from the first to the last.",
        "parameter tensor",
        "multiplier a",
        series,
        level=(0.0, "unchanged"),
        zero="a = 0",
    )


def scan_gaps(scan: BatchScan) -> Panel:
    """How far log J of the worst block is from that at the largest batch."""
    gaps, errors = scan.gap[:-1].abs().double(), scan.gap_se[:-1].double()
    rows = range(len(gaps))
    at = [int(gap.nan_to_num(math.inf).argmax()) for gap in gaps]
    worst = [float(gaps[i, at[i]]) for i in rows]
    se = [float(errors[i, at[i]]) for i in rows]
    x = log10s(scan.sizes[:-1])
    return Panel(
        "How far J is from that of the largest batch",
        f"|Δ log J| of the worst block, with one standard error. Below {scan.tol:g} the size "
        "agrees.",
        "batch size |B|",
        "|Δ log J|",
        [
            Series(
                "worst block",
                0,
                x,
                log10s(worst),
                log10s([max(0.0, w - s) for w, s in zip(worst, se, strict=True)]),
                log10s([w + s for w, s in zip(worst, se, strict=True)]),
            )
        ],
        level=(math.log10(scan.tol), f"tolerance {scan.tol:g}"),
        x_ticks=[(t, str(s)) for t, s in zip(x, scan.sizes[:-1], strict=True)],
        zero="no difference",
    )


def scan_curves(scan: BatchScan) -> Panel:
    """J against |B| of the blocks that change most."""
    first = scan.profiles[0]
    hidden = first.is_hidden.nonzero().flatten().tolist()
    moved = scan.gap.abs().nan_to_num(0.0, 0.0, 0.0).amax(0)
    shown = sorted(hidden[i] for i in moved.argsort(descending=True)[:_MOST_LINES].tolist())
    x = log10s(scan.sizes)
    names = [f"{i} ({first.names[i]})" for i in shown]
    series = []
    for block, name, look in zip(shown, names, indices(names), strict=True):
        curves = [curve(p, "apjn") for p in scan.profiles]
        columns = [[getattr(c, part)[block] for c in curves] for part in ("y", "low", "high")]
        series.append(Series(name, look, x, columns[0], columns[1], columns[2]))
    what = "all blocks" if len(shown) == len(hidden) else f"the {len(shown)} that change most"
    return Panel(
        "J against the batch size",
        f"Of {what}, with one standard error. The largest size is the measure of the others.",
        "batch size |B|",
        "J",
        series,
        level=(0.0, "J = 1"),
        x_ticks=[(t, str(s)) for t, s in zip(x, scan.sizes, strict=True)],
        zero="J = 0",
    )


def from_chart(chart: Chart) -> Panel:
    """A chart of somebody else's."""
    names = [line.name for line in chart.lines]
    series = [
        Series(line.name, look, line.x, log10s(line.y) if chart.log else line.y)
        for line, look in zip(chart.lines, indices(names), strict=True)
    ]
    return Panel(chart.title, chart.text, chart.x, chart.y, series, log=chart.log)
