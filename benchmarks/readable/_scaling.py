"""Growth with depth, width, batch and probes, each with its fitted exponent."""

from __future__ import annotations

from scaling import AXES, BASE, EXPECTED_COST, EXPECTED_MEMORY, LARGE, MEMORY_AXES, exponent

from readable._tables import Points, between, number, of, table

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
        "sweep, measuring before and after included. An exponent below the expected one says that "
        "at the small end fixed costs prevail: torch's for each operator (as in the floor) "
        "and Python's for each block.",
        "",
        *cost(rows),
        *peaks(memory),
    ]


def findings(points: Points) -> list[str]:
    """The exponents, and how far above the floor."""
    rows, memory = of(points, "scaling"), of(points, "scaling memory")
    lines = []
    for what in WHAT[1:]:
        cost_by = [f"{axis} {number(slope(costs_of(rows, axis, what)))}" for axis in AXES]
        held_by = [f"{axis} {number(slope(peaks_of(memory, axis, what)))}" for axis in MEMORY_AXES]
        lines.append(
            f"- `{what}` grows with exponents, in cost: {', '.join(cost_by)}; in memory: "
            f"{', '.join(held_by)}."
        )
    over = [p["measure"] / p["floor"] for p in rows.values() if "floor" in p]
    if over:
        lines.append(f"- `measure` costs {between(over)} times the floor on these MLPs.")
    return [*lines, ""]


def costs_of(rows: Points, axis: str, what: str) -> dict[int, float | None]:
    return {v: rows.get(f"{axis} | {v}", {}).get(what) for v in AXES[axis]}


def peaks_of(memory: Points, axis: str, what: str) -> dict[int, float | None]:
    values = MEMORY_AXES[axis]
    return {v: memory.get(f"{axis} | {v} | {what}", {}).get("mib") for v in values}


def slope(found: dict[int, float | None]) -> float | None:
    known = {v: y for v, y in found.items() if y}
    return exponent(list(known), list(known.values())) if len(known) > 1 else None


def cost(rows: Points) -> list[str]:
    kinds = [(axis, what, costs_of(rows, axis, what)) for axis in AXES for what in WHAT]
    return grown("cost", kinds, EXPECTED_COST)


def peaks(memory: Points) -> list[str]:
    kinds = [(a, what, peaks_of(memory, a, what)) for a in MEMORY_AXES for what in WHAT[1:]]
    return grown("memory", kinds, EXPECTED_MEMORY)


def grown(
    name: str,
    kinds: list[tuple[str, str, dict[int, float | None]]],
    expected: dict[str, int],
) -> list[str]:
    """A row for each axis and each thing that grows along it."""
    lines = []
    for axis, what, found in kinds:
        ends = f"{name}, {axis} {min(found)} … {max(found)}"
        cells = [number(y) for y in found.values()]
        lines.append([ends, what, *cells, number(slope(found)), str(expected[axis])])
    return table(["", "", *[f"×{2**i}" for i in range(5)], "exponent", "expected"], lines)
