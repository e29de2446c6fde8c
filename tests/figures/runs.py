"""Folders as trainings leave them, and tables without what differs from run to run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

from critinit.figures import Drawn, find
from critinit.figures._figure import Scale
from critinit.figures._run import table_of

UNSTEADY = ("seconds",)


def training(folder: Path, name: str, model: str, init: str, accuracies: list[float]) -> None:
    """One run directory."""
    run = folder / name
    run.mkdir(parents=True)
    recipe = {"name": f"{model}-short", "model": model}
    (run / "run.json").write_text(json.dumps({"recipe": recipe, "init": init, "seed": 0}))
    lines = [f"{i + 1},0.1,1.0,{a / 2},1.1,{a}" for i, a in enumerate(accuracies)]
    head = "epoch,lr,train_loss,train_accuracy,test_loss,test_accuracy"
    (run / "metrics.csv").write_text("\n".join([head, *lines, ""]))


def steady(drawn: Drawn, name: str, changes: dict[str, Any] | None = None) -> list[str]:
    """The rows of a table in a fixed order, without the time they took."""
    figure = find(name)
    scale = next(s for s in get_args(Scale) if f"-{s}-" in drawn.table.name)
    rows = table_of(figure, figure.settled(scale, changes or {}), drawn.table).rows()
    return sorted(str({k: v for k, v in row.items() if k not in UNSTEADY}) for row in rows)
