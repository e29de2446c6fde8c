"""The awkward networks: one table, and in words what went wrong."""

from __future__ import annotations

from collections import defaultdict

from awkward import AWKWARD
from edges import STEPS
from peers import METHODS

from readable._tables import NONE, Points, of, table

SIGNS = {"works": "✓", "says so": "(✓)", "refuses": "✗", "fails": "✗", "wrong": "**!**"}


def section(points: Points) -> list[str]:
    found = of(points, "edges")
    rows = []
    for name in AWKWARD:
        seen = [found.get(f"{name} | {method}", {}) for method in METHODS]
        rows.append([name, *(SIGNS.get(p.get("outcome", ""), "✗" if p else NONE) for p in seen)])
    return [
        "## Awkward networks",
        "",
        f"Small ones, at most {STEPS} steps. ✓ works; ✗ ends in an exception; **!** wrong without "
        "a word: something is changed that should not be, no weight is changed at all, NaN, or the "
        "method's own aim is missed (critinit: the largest |log J| of the blocks that are not "
        "frozen comes nearer to 0 or is below 0.1; lsuv: a standard deviation of 1 behind every "
        "layer; the others: no aim is checked). (✓) misses the aim, but the result says so.",
        "",
        *table(["", *METHODS], rows),
        *reasons(found),
    ]


def findings(points: Points) -> list[str]:
    counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for key, point in of(points, "edges").items():
        counts[key.rpartition(" | ")[2]][point.get("outcome", "fails")] += 1
    lines = []
    for name in METHODS:
        if name in counts:
            c = counts[name]
            lines.append(
                f"- **{name}**: {c['works'] + c['says so']} of {sum(c.values())} awkward networks "
                f"work or are said not to, {c['fails'] + c['refuses']} end in an exception, "
                f"{c['wrong']} are wrong without a word."
            )
    return [*lines, ""]


def reasons(found: Points) -> list[str]:
    lines = []
    for method in METHODS:
        seen = defaultdict(list)
        for name in AWKWARD:
            point = found.get(f"{name} | {method}", {})
            if why := point.get("why") or point.get("failed"):
                seen[why].append(name)
        lines += [f"- {method}, {', '.join(names)}: {why}" for why, names in seen.items()]
    return [*lines, ""]
