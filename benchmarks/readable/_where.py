"""Where critinit's own time goes."""

from __future__ import annotations

from where import PHASES, REST

from readable._tables import Points, listed, number, of, table

SECOND_OF_NORMS = "NativeBatchNormBackwardBackward0"


def section(points: Points) -> list[str]:
    found = of(points, "profile")
    names = {key: key.replace(" | ", ", ") for key, p in found.items() if "phases" in p}
    rows = [
        [phase, *(share(found[key]["phases"].get(phase, 0.0)) for key in names)]
        for phase in (*PHASES, REST)
    ]
    cost = ["*cost of this run*", *(number(found[key]["cost"]) for key in names)]
    return [
        "## Where the time goes",
        "",
        "Shares of the process time of one run, by phase; the inner phase counts where one is "
        "within another (*measure* is without finding the blocks, *polish* without the J it looks "
        "at). `tune_` is the default, `JKL(0.05)` by the sweep, and *measure* in it is before and "
        "after.",
        "",
        *table(["", *names.values()], [*rows, cost]),
        "The kinds of autograd nodes that took most, as shares of all that operators took under "
        "torch's profiler (what a node calls included; forward passes are not nodes):",
        "",
        *(f"- {said}: {kinds(found[key]['nodes'])}" for key, said in names.items()),
        "",
        *proposals(found),
    ]


def proposals(found: Points) -> list[str]:
    """What this bears out and is not done yet."""
    second = found.get("VGG19_BN | tune_", {}).get("nodes", {}).get(SECOND_OF_NORMS)
    lines = [
        "What this bears out, and is not done:",
        "",
        "- Polish, and J by many probes, are most of a tuning by J and K at such small batches. "
        "Rounds that look again only at blocks which their step moves would save most.",
        "- Folding is all or nothing, so it keeps a copy of the weights: at 128 blocks more "
        "than the sweep itself holds.",
    ]
    if second is not None:
        lines.append(
            f"- The second derivative of BatchNorm is {share(second)} of what operators take on "
            "VGG19_BN, those of pooling and attention are not among the first: composite norms "
            "would gain little."
        )
    return [*lines, ""]


def findings(points: Points) -> list[str]:
    """The phase that takes most of a tuning."""
    lines = []
    for key, point in of(points, "profile").items():
        name, _, what = key.partition(" | ")
        if what == "tune_" and "phases" in point:
            first, second = sorted(point["phases"], key=lambda p: -point["phases"][p])[:2]
            parts = [f"{phase} ({share(point['phases'][phase])})" for phase in (first, second)]
            lines.append(f"- Of tuning {name}, most goes into {listed(parts)}.")
    return [*lines, ""]


def share(part: float) -> str:
    return f"{100 * part:.0f} %"


def kinds(nodes: dict[str, float]) -> str:
    return ", ".join(f"{name} {share(part)}" for name, part in nodes.items())
