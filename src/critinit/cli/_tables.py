"""Results as tables that fit the terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from rich.console import Console, JustifyMethod, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from torch import Tensor

from critinit._format import BAR, bar, cosine, short, shortened
from critinit.profile import Profile
from critinit.report import Comparison
from critinit.report._subject import how_measured
from critinit.report._words import (
    TOL,
    Tone,
    advice,
    advice_after_tuning,
    explanation,
    headline,
    key_figures,
    over_the_depth,
    tone,
)
from critinit.result import Result
from critinit.scan import BatchScan

_SIGNS: dict[Tone, tuple[str, str]] = {
    "good": ("✓", "bold green"),
    "mild": ("≈", "bold yellow"),
    "bad": ("✗", "bold red"),
}
_SHORTEST_NAME = 7
_WIDE, _ROOM_FOR_BARS, _ROOM_FOR_FOUR = 106, 75, 52
_GAP = 2  # between columns
_LONGEST_NUMBER = 8  # such as 1.23e-05
_Column = tuple[str, Callable[[int], RenderableType]]
_WORDS = (
    *("block", "method", "state", "network", "model", "source", "what it is"),
    *("argument", "default", "type", "figure"),
)


def show_profile(console: Console, profile: Profile, model: str) -> None:
    """Every block, and what it means."""
    console.print(Text(f"{model}: {how_measured(profile)}"), style="bold")
    show_blocks(console, profile)
    _verdict(console, profile, headline(profile), [*explanation(profile), *advice(profile)])


def show_blocks(console: Console, profile: Profile) -> None:
    """A row for every block."""
    columns = _measured(profile, console.width)
    rows = table("l", "block", *(title for title, _ in columns))
    at_input = {"K": _number(profile.kernel[0]), "corr": _cosine(profile, 0)}
    rows.add_row("", "(input)", *(at_input.get(title, "") for title, _ in columns))
    for i, name in enumerate(_fitted(profile.names, _room_for_names(console, profile, columns))):
        rows.add_row(str(i), name, *(cell(i) for _, cell in columns))
    console.print(rows)


def show_result(console: Console, result: Result, model: str, most: int | None = None) -> None:
    """Every block before and after, or ``most`` of them, from both ends."""
    before, after = result.before, result.after
    console.print(Text(f"{model}: {how_measured(after)}"), style="bold")
    columns = _before_and_after(before, after, console.width)
    rows = table("l", "block", *(title for title, _ in columns))
    names = _fitted(before.names, _room_for_names(console, before, columns))
    left_out = _middle(len(names), most)
    for i, name in enumerate(names):
        if left_out and i == left_out.start:
            rows.add_row("", f"… {len(left_out)} more")
        if i in left_out:
            continue
        rows.add_row(str(i), name, *(cell(i) for _, cell in columns))
    console.print(rows)
    _verdict(console, before, f"Before: {headline(before)}", [over_the_depth(before)])
    said = [*explanation(after), *advice_after_tuning(after)]
    _verdict(console, after, f"After: {headline(after)}", said)
    console.print(Text(f"The tuning: {result.message.rstrip('.')}."))


def _measured(profile: Profile, width: int) -> list[_Column]:
    """The columns that there is room for: numbers are never cut."""
    return [
        ("J", lambda i: _number(profile.apjn[i])),
        *[("±", lambda i: _number(profile.apjn_se[i]))] * (width >= _ROOM_FOR_FOUR),
        *[_bars(profile)] * (width >= _ROOM_FOR_BARS),
        ("K", lambda i: _number(profile.kernel[i + 1])),
        ("corr", lambda i: _cosine(profile, i + 1)),
    ]


def _before_and_after(before: Profile, after: Profile, width: int) -> list[_Column]:
    """Likewise."""
    return [
        ("J before", lambda i: _number(before.apjn[i])),
        *[_bars(before)] * (width >= _WIDE),
        ("J after", lambda i: _number(after.apjn[i])),
        *[_bars(after)] * (width >= _ROOM_FOR_BARS),
        *[_kernels("K before", before)] * (width >= _ROOM_FOR_FOUR),
        _kernels("K after", after),
    ]


def _bars(profile: Profile) -> _Column:
    return "log J", lambda i: _bar(profile, i)


def _kernels(title: str, profile: Profile) -> _Column:
    return title, lambda i: _number(profile.kernel[i + 1])


def _number(value: Tensor) -> str:
    return short(value, 1)


def _room_for_names(console: Console, profile: Profile, columns: Sequence[_Column]) -> int:
    number_of_block = len(str(len(profile.names) - 1))
    return console.width - number_of_block - _GAP - sum(_room(title) for title, _ in columns)


def _room(title: str) -> int:
    return _GAP + (2 * BAR + 1 if title == "log J" else _LONGEST_NUMBER)


def show_comparison(console: Console, comparison: Comparison, model: str) -> None:
    """One line a method."""
    first = next(iter(comparison.profiles.values()))
    console.print(Text(f"{model}: {how_measured(first)}"), style="bold")
    rows = table("method", "state", "J farthest from 1", "gradient", "K", "corr", "seconds")
    for name, profile in comparison.profiles.items():
        sign, style = _SIGNS[tone(profile)]
        rows.add_row(
            name,
            Text(f"{sign} {headline(profile)}", style=style),
            *key_figures(profile).values(),
            f"{comparison.seconds.get(name, math.nan):.3g}",
        )
    console.print(rows)
    for name, why in comparison.failed.items():
        console.print(Text(f"{name} did not work: {why}"))
    console.print(Text(f"{comparison.verdict()}."))


def show_scan(console: Console, scan: BatchScan) -> None:
    """One line a batch size."""
    console.print(Text(str(scan)), soft_wrap=True)


def _verdict(console: Console, profile: Profile, title: str, said: Sequence[str]) -> None:
    sign, style = _SIGNS[tone(profile)]
    console.print()
    console.print(Text(f"{sign} {title}", style=style))
    for sentence in said:
        console.print(Padding(Text(sentence), (0, 0, 0, 2), expand=False))


def table(*columns: str) -> Table:
    """Without lines, as wide as what is in it."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in columns:
        _column(made, name)
    return made


def _column(to: Table, name: str) -> None:
    """Words to the left, numbers to the right."""
    justify: JustifyMethod = "right"
    if name in _WORDS:
        justify = "left"
    elif name == "log J":
        justify = "center"
    to.add_column(name, justify=justify, no_wrap=name not in ("state", "what it is"))


def _bar(profile: Profile, i: int) -> RenderableType:
    log_j = float(profile.log_apjn[i])
    style = "green" if abs(log_j) < TOL else "red" if log_j > 0 else "blue"
    return Text(bar(log_j), style=style)


def _cosine(profile: Profile, i: int) -> str:
    return cosine(profile.correlation[i])


def _middle(count: int, most: int | None) -> range:
    """What to leave out so that ``most`` of ``count`` stay."""
    if most is None or most >= count:
        return range(0)
    return range((most + 1) // 2, count - most // 2)


def _fitted(names: Sequence[str], room: int) -> list[str]:
    """Names shortened to the room there is."""
    return [shortened(name, max(_SHORTEST_NAME, room)) for name in names]
