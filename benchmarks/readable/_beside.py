"""critinit beside its peers: cost, memory, what comes out, what is changed besides."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

from beside import PATIENCE, PROBES, ROUNDS, UNIT
from models import BESIDE
from peers import METHODS
from peers.ours import METHODS as OURS

from readable._tables import NONE, Points, between, listed, number, of, table

Point = Mapping[str, Any]
Rows = Mapping[str, Point]
DEFAULT = "sweep, J and K"
CRITICAL = 0.1  # the largest |log J| of a critical network


def section(points: Points) -> list[str]:
    rows, memory = of(points, "beside"), of(points, "memory")
    return [
        *whole_cost(rows),
        *steps(rows),
        *peak_memory(memory),
        *quality(rows, "j", "|log J|"),
        *quality(rows, "k", "|log K ratio|"),
        *side_effects(rows),
        *failures(rows),
    ]


def findings(points: Points) -> list[str]:
    """In words, for each method: cost, and on how many models J comes near to 1."""
    rows = of(points, "beside")
    lines = []
    for name in METHODS:
        done = {m: rows[f"{m} | {name}"] for m in BESIDE if finished(rows, m, name)}
        if not done:
            continue
        costs = [median(p["cost"]) for p in done.values()]
        close = sum(p["after"]["j"] < CRITICAL for p in done.values())
        nearer = sum(p["after"]["j"] < p["before"]["j"] for p in done.values())
        short = [m for m, p in done.items() if in_part(p, name)]
        part = f" (cut short on {len(short)} of them)" if short else ""
        lines.append(
            f"- **{name}**: {between(costs)} over {len(done)} models{part}. The largest |log J| "
            f"fell in {nearer} of them, below {CRITICAL:g} in {close}."
        )
    return [*lines, "", *against(rows)]


def against(rows: Rows) -> list[str]:
    """Where a peer does better than the default of critinit."""
    peers = [m.name for m in METHODS.values() if m not in OURS]
    lines = []
    for what, key in (("|log J|", "j"), ("|log K ratio|", "k")):
        own = {m: value(rows, m, DEFAULT, key) for m in BESIDE}
        best = {m: best_of(rows, m, peers, key) for m in BESIDE}
        known = [m for m in BESIDE if own[m] is not None and best[m] is not None]
        ahead = [
            f"{m} ({best[m][1]}: {number(best[m][0])} against {number(own[m])})"
            for m in known
            if best[m][0] < own[m]
        ]
        lines.append(
            f"- The best of the peers leaves a smaller largest {what} than `{DEFAULT}` on "
            f"{len(ahead)} of {len(known)} models{': ' * bool(ahead)}{'; '.join(ahead)}."
        )
    cheaper = []
    for name in peers:
        pairs = [
            (median(rows[f"{m} | {name}"]["cost"]), median(rows[f"{m} | {DEFAULT}"]["cost"]))
            for m in BESIDE
            if finished(rows, m, name) and finished(rows, m, DEFAULT)
        ]
        if pairs:
            cheaper.append(f"{name} on {sum(a < b for a, b in pairs)} of {len(pairs)}")
    if cheaper:
        lines.append(f"- Cheaper than `{DEFAULT}`: {listed(cheaper)}.")
    lines += [
        f"- {name} changes more than the weights: {what}."
        for name in METHODS
        if (what := changes(rows, name)) not in (None, "nothing")
    ]
    return [*lines, ""]


def best_of(rows: Rows, model: str, methods: Sequence[str], key: str) -> tuple[float, str] | None:
    found = [(value(rows, model, name, key), name) for name in methods]
    return min(((v, name) for v, name in found if v is not None), default=None)


def finished(rows: Rows, model: str, method: str) -> bool:
    point = rows.get(f"{model} | {method}", {})
    return "cost" in point and "j" in point["after"]


def value(rows: Rows, model: str, method: str, key: str) -> float | None:
    return rows[f"{model} | {method}"]["after"][key] if finished(rows, model, method) else None


def in_part(point: Point, method: str) -> bool:
    return point.get("taken", 0) < METHODS[method].steps


def whole_cost(rows: Rows) -> list[str]:
    def cell(point: Point, method: str) -> str:
        shown = number(median(point["cost"]))
        return f"≈ {shown}" if in_part(point, method) else shown

    return [
        "## Cost of the whole",
        "",
        f"In forward and backward passes. Median of {ROUNDS} rounds (one where a run takes longer "
        f"than {PATIENCE / ROUNDS:.0f} s); of what iterates one run. ≈ means that only as many "
        f"steps were run as fit into {PATIENCE:.0f} s, and the others are counted at the cost "
        "of a step.",
        "",
        *grid(rows, METHODS, cell),
        *spread(rows),
    ]


def spread(rows: Rows) -> list[str]:
    """How far rounds lie apart: these machines are shared."""
    ratios = [max(p["cost"]) / min(p["cost"]) for p in rows.values() if len(p.get("cost", ())) > 1]
    if not ratios:
        return []
    return [
        f"The dearest of the rounds of a cell costs {number(median(ratios))} times the cheapest in "
        f"the median, {number(max(ratios))} times at most.",
        "",
    ]


def steps(rows: Rows) -> list[str]:
    def cell(point: Point, _: str) -> str:
        return number(median(point["step"]))

    iterating = [name for name, method in METHODS.items() if method.steps]
    return ["## Cost of a step", "", *grid(rows, iterating, cell)]


def peak_memory(memory: Rows) -> list[str]:
    rows = []
    for name in METHODS:
        row = []
        for model in BESIDE:
            found, unit = memory.get(f"{model} | {name}", {}), memory.get(f"{model} | {UNIT}", {})
            known = "mib" in found and "mib" in unit
            row.append(number(found["mib"] / unit["mib"]) if known else failed(found))
        rows.append([name, *row])
    units = [number(memory.get(f"{model} | {UNIT}", {}).get("mib")) for model in BESIDE]
    return [
        "## Peak memory",
        "",
        "What is held beyond the model and its batches, each in a process of its own, in units of "
        "what a forward and backward pass holds (weight gradients included). Two steps of what "
        "iterates.",
        "",
        *table(["", *BESIDE], [*rows, [f"*{UNIT}, MiB*", *units]]),
    ]


def quality(rows: Rows, key: str, what: str) -> list[str]:
    def cell(point: Point, method: str) -> str:
        after = point["after"]
        if key not in after:
            return "not measured"
        dead = f", {after['dead']} dead" if after["dead"] and key == "j" else ""
        return f"{number(after[key])}{'†' * in_part(point, method)}{dead}"

    before = []
    for model in BESIDE:
        points = [rows.get(f"{model} | {name}", {}) for name in METHODS]
        known = [p["before"][key] for p in points if "before" in p]
        before.append(number(known[0]) if known else NONE)
    return [
        f"## Largest {what} afterwards",
        "",
        *table(["", *BESIDE], [["*before*", *before], *cells(rows, METHODS, cell)]),
        *(
            [
                f"Of the hidden blocks and the output block, with {PROBES} fresh probes on a batch "
                "that no method saw. † after only as many steps as are listed below. *Dead* blocks "
                "pass no gradient (behind a head of zeros) and are left out.",
                "",
                *taken(rows),
            ]
            if key == "j"
            else []
        ),
    ]


def taken(rows: Rows) -> list[str]:
    """How many steps were run, where not all."""
    lines = []
    for name, method in METHODS.items():
        short = [
            f"{model} {rows[key]['taken']}"
            for model in BESIDE
            if "taken" in rows.get(key := f"{model} | {name}", {}) and in_part(rows[key], name)
        ]
        if short:
            lines.append(f"- {name}, of {method.steps} steps: {', '.join(short)}")
    return [*lines, ""] if lines else []


def changes(rows: Rows, method: str) -> str | None:
    """What else was changed, and on which models; None if it was not run."""
    points = {m: rows[key] for m in BESIDE if "changed" in rows.get(key := f"{m} | {method}", {})}
    where: dict[str, list[str]] = {}
    for model, point in points.items():
        for what in point["changed"]:
            where.setdefault(what, []).append(model)
    said = "; ".join(f"{what} ({', '.join(models)})" for what, models in where.items())
    return (said or "nothing") if points else None


def side_effects(rows: Rows) -> list[str]:
    return [
        "## Changed besides the weights",
        "",
        "Modes, buffers, ties between weights, names and kinds of parameters, parametrizations, "
        "hooks and frozen weights were compared. Networks with ties and parametrizations are among "
        "the awkward ones below.",
        "",
        *table(["", "changed"], [[m, changes(rows, m) or NONE] for m in METHODS], words=True),
    ]


def failures(rows: Rows) -> list[str]:
    seen = {key: p["failed"] for key, p in rows.items() if "failed" in p}
    if not seen:
        return []
    said = [f"- {key.replace(' | ', ', ')}: {why}" for key, why in seen.items()]
    return ["## Failed", "", *said, ""]


Cell = Callable[[Point, str], str]


def grid(rows: Rows, methods: Any, cell: Cell) -> list[str]:
    return table(["", *BESIDE], cells(rows, methods, cell))


def cells(rows: Rows, methods: Any, cell: Cell) -> list[list[str]]:
    """A row for each method, a column for each model."""
    lines = []
    for name in methods:
        found = [rows.get(f"{model} | {name}", {}) for model in BESIDE]
        lines.append([name, *(cell(p, name) if "cost" in p else failed(p) for p in found)])
    return lines


def failed(point: Point) -> str:
    return "fails" if "failed" in point else NONE
