"""Growth with depth, width, batch and probes, each with its fitted exponent."""

from __future__ import annotations

from scaling import AXES, BASE, EXPECTED_COST, EXPECTED_MEMORY, LARGE, MEMORY_AXES, exponent

from readable._tables import NONE, Points, number, of, table

WHAT = ("floor", "measure", "tune_")


def section(points: Points) -> list[str]:
    rows, memory = of(points, "scaling"), of(points, "scaling memory")
    return [
        "## Scaling",
        "",
        f"ReLU MLPs. Cost around depth {BASE.depth}, width {BASE.width}, batch {BASE.batch}, one "
        "probe, in units of the floor there: a forward pass, and for each probe a backward pass to "
        f"the input only. Memory around depth {LARGE.depth}, width {LARGE.width}, batch "
        f"{LARGE.batch}, in MiB. The exponent is the slope of a straight line through logarithms; "
        "*expected* is what the operations add up to. `tune_` is the default, `JKL(0.05)` by the "
        "sweep, measuring before and after included.",
        "",
        *cost(rows),
        *peaks(memory),
    ]


def cost(rows: Points) -> list[str]:
    lines = []
    for axis, values in AXES.items():
        for what in WHAT:
            found = {v: rows.get(f"{axis} | {v}", {}).get(what) for v in values}
            known = {v: y for v, y in found.items() if y is not None}
            slope = number(exponent(list(known), list(known.values()))) if len(known) > 1 else NONE
            shown = [number(y) for y in found.values()]
            name = f"cost, {axis} {values[0]} … {values[-1]}"
            lines.append([name, what, *shown, slope, str(EXPECTED_COST[axis])])
    return table(["", "", *["×" + str(2**i) for i in range(5)], "exponent", "expected"], lines)


def peaks(memory: Points) -> list[str]:
    lines = []
    for axis, values in MEMORY_AXES.items():
        for what in WHAT[1:]:
            found = {v: memory.get(f"{axis} | {v} | {what}", {}).get("mib") for v in values}
            known = {v: y for v, y in found.items() if y}
            slope = number(exponent(list(known), list(known.values()))) if len(known) > 1 else NONE
            shown = [number(y) for y in found.values()]
            name = f"memory, {axis} {values[0]} … {values[-1]}"
            lines.append([name, what, *shown, slope, str(EXPECTED_MEMORY[axis])])
    return table(["", "", *["×" + str(2**i) for i in range(5)], "exponent", "expected"], lines)
