"""A recipe at every learning rate and weight decay of its grid."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from critinit._files import write_text
from critinit.training.errors import DivergedError
from critinit.training.loop import Outcome, train
from critinit.training.recipe import Recipe

TABLE = "grid.csv"
_COLUMNS = ("lr", "weight_decay", "train_accuracy", "test_accuracy", "note", "best")


def train_grid(
    recipe: Recipe,
    directory: str | Path,
    init: str = "autoinit",
    *,
    starting: Callable[[Recipe], None] | None = None,
    **options: Any,
) -> list[dict[str, object]]:
    """`train` at every point, each in a folder of its own; a row for each, the best one marked.

    The best is the one with the highest accuracy on the test images after the last epoch, as the
    paper selects its curves: so that accuracy is the best of several, not of an untouched test. A
    training that diverges is a row, too. Finished points are not run again.

    Args:
        recipe: What to train.
        directory: For all of it; ``grid.csv`` there is the table.
        init: As for `train`.
        starting: Called before each training.
        options: As for `train`.
    """
    folder = Path(directory)
    rows: list[dict[str, object]] = []
    for point in recipe.grid():
        if starting:
            starting(point)
        place = folder / f"lr={point.lr:g},weight_decay={point.weight_decay:g}"
        row: dict[str, object] = {"lr": point.lr, "weight_decay": point.weight_decay}
        try:
            row |= _result(train(point, place, init, **options))
        except DivergedError as error:
            row |= {"train_accuracy": "", "test_accuracy": "", "note": str(error)}
        rows.append(row)
    _mark_best(rows)
    text = io.StringIO()
    writer = csv.DictWriter(text, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(folder / TABLE, text.getvalue())
    return rows


def _result(outcome: Outcome) -> dict[str, object]:
    last = outcome.rows[-1]
    return {key: last[key] for key in ("train_accuracy", "test_accuracy")} | {"note": ""}


def _mark_best(rows: list[dict[str, object]]) -> None:
    accuracies = [row["test_accuracy"] for row in rows]
    finite = [a for a in accuracies if isinstance(a, float)]
    for row, accuracy in zip(rows, accuracies, strict=True):
        row["best"] = "best" if finite and accuracy == max(finite) else ""
