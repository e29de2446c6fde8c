"""What the table says: of each method on each network the best learning rate, and how good."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from plan import Experiment
from trial import Trial

Row = dict[str, str]


@dataclass(frozen=True)
class Cell:
    """A method on a network.

    Attributes:
        done: Trainings that are in the table, of ``planned``.
        planned: Learning rates times seeds.
        lr: The learning rate with the best mean accuracy on the held-out training images.
        test: Test accuracies at this rate, one for each seed.
    """

    done: int
    planned: int
    lr: float
    test: tuple[float, ...]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.test)

    @property
    def is_complete(self) -> bool:
        return self.done == self.planned


def cells(experiment: Experiment, rows: Sequence[Row]) -> dict[tuple[str, str], Cell]:
    """By method and network; nothing where there is no training yet."""
    planned = set(experiment.trials())
    mine = [row for row in rows if trial_of(row) in planned]
    found = {}
    for method in experiment.methods:
        for network in experiment.networks:
            own = [r for r in mine if (r["method"], r["network"]) == (method, network)]
            if own:
                count = sum((t.method, t.network) == (method, network) for t in planned)
                found[method, network] = _best(own, count)
    return found


def _best(rows: Sequence[Row], planned: int) -> Cell:
    by_rate: dict[float, list[Row]] = {}
    for row in rows:
        by_rate.setdefault(float(row["lr"]), []).append(row)
    most = max(len(group) for group in by_rate.values())
    whole = {lr: group for lr, group in by_rate.items() if len(group) == most}
    lr = max(whole, key=lambda rate: statistics.fmean(float(r["validation"]) for r in whole[rate]))
    return Cell(len(rows), planned, lr, tuple(float(r["test"]) for r in whole[lr]))


def trial_of(row: Row) -> Trial:
    return Trial(
        row["network"], row["method"], float(row["lr"]), int(row["steps"]), int(row["seed"])
    )


def best_at(experiment: Experiment, found: dict[tuple[str, str], Cell]) -> dict[str, str]:
    """The method with the highest mean on each network where every method is done."""
    best = {}
    for network in experiment.networks:
        own = {method: found.get((method, network)) for method in experiment.methods}
        means = {method: cell.mean for method, cell in own.items() if cell and cell.is_complete}
        if len(means) == len(own):
            best[network] = max(means, key=lambda method: means[method])
    return best


def difference(one: Cell, other: Cell) -> tuple[float, float]:
    """By how much the mean of ``one`` is higher, and the standard error of that."""
    variances = [statistics.variance(cell.test) / len(cell.test) for cell in (one, other)]
    return one.mean - other.mean, sum(variances) ** 0.5


def worst_case(
    experiment: Experiment, found: dict[tuple[str, str], Cell], method: str
) -> float | None:
    """The method's lowest mean over the networks, once it is done on each of them."""
    own = [found.get((method, network)) for network in experiment.networks]
    done = [cell.mean for cell in own if cell and cell.is_complete]
    return min(done) if len(done) == len(own) else None
