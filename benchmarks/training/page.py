"""Renew the tables and pictures in ``docs/training.md`` from what has been run so far."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import table
from pictures import draw
from plan import EXPERIMENTS, Experiment
from summary import Cell, Row, best_at, cells, difference, worst_case

PAGE = Path(__file__).parents[2] / "docs" / "training.md"
PICTURES = PAGE.parent / "training"
OURS = "autoinit"
SECTION = re.compile(r"(<!-- (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def renewed(page: str, rows: Sequence[Row]) -> str:
    """The page with its sections between ``<!-- name -->`` and ``<!-- end -->`` made anew."""
    experiments = {experiment.name: experiment for experiment in EXPERIMENTS}

    def section(match: re.Match[str]) -> str:
        return match[1] + written(experiments[match[2]], rows) + match[3]

    return SECTION.sub(section, page)


def written(experiment: Experiment, rows: Sequence[Row]) -> str:
    """How much is done, and the table."""
    found = cells(experiment, rows)
    done, planned = sum(cell.done for cell in found.values()), len(set(experiment.trials()))
    rates = ", ".join(f"{lr:g}" for lr in experiment.rates)
    lines = [
        f"{done} of {planned} planned trainings are in the table: {experiment.steps} steps of "
        f"|B| = 128, learning rates {rates}, three seeds.",
        "",
        "| initialization | " + " | ".join(experiment.networks) + " | worst |",
        "|---|" + "---|" * len(experiment.networks) + "---:|",
        *(_line(experiment, found, method) for method in experiment.methods),
        "",
    ]
    if OURS in experiment.methods:
        lines += [verdict(experiment, found), ""]
    if found:
        lines += [f"![{experiment.title}](training/{experiment.name}.png)", ""]
    return "\n".join(lines)


def verdict(experiment: Experiment, found: dict[tuple[str, str], Cell]) -> str:
    """Where AutoInit wins and where it does not, on the networks where all methods are done."""
    said = []
    for network, best in best_at(experiment, found).items():
        ours = found[OURS, network]
        rivals = [method for method in experiment.methods if method != OURS]
        rival = max(rivals, key=lambda method, on=network: found[method, on].mean)
        more, error = difference(ours, found[rival, network])
        gap = f"{100 * abs(more):.1f} ± {100 * error:.1f}"
        place = "ahead of" if best == OURS else "**behind**"
        said.append(f"on {network} it is {place} {rival} by {gap}")
    if not said:
        return "No network has all its trainings yet, so there is nothing to conclude."
    return f"{OURS} beside the best of the others, in points: {'; '.join(said)}."


def _line(experiment: Experiment, found: dict[tuple[str, str], Cell], method: str) -> str:
    best = best_at(experiment, found)
    texts = [
        _text(found.get((method, network)), best.get(network) == method)
        for network in experiment.networks
    ]
    worst = worst_case(experiment, found, method)
    return f"| {method} | " + " | ".join(texts) + f" | {'' if worst is None else _percent(worst)} |"


def _text(cell: Cell | None, is_best: bool) -> str:
    """Mean, from the lowest to the highest seed, at which learning rate."""
    if cell is None:
        return "–"
    mean = f"**{_percent(cell.mean)}**" if is_best else _percent(cell.mean)
    low, high = _percent(min(cell.test)), _percent(max(cell.test))
    spread = f" ({low}–{high})" if len(cell.test) > 1 else ""
    part = "" if cell.is_complete else f", {cell.done}/{cell.planned} runs"
    return f"{mean}{spread} at {cell.lr:g}{part}"


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def main() -> None:
    rows = table.rows()
    PAGE.write_text(renewed(PAGE.read_text(), rows))
    PICTURES.mkdir(exist_ok=True)
    for experiment in EXPERIMENTS:
        if cells(experiment, rows):
            draw(experiment, rows, PICTURES / f"{experiment.name}.png")


if __name__ == "__main__":
    main()
