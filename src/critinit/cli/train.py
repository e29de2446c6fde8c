"""``critinit train``."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from critinit import baselines, training
from critinit.cli._console import note, output, progress
from critinit.cli._options import Debug, Quiet, Seed, Threads
from critinit.cli._settings import split
from critinit.cli._tables import table
from critinit.cli.errors import CommandError
from critinit.training import Recipe

app = typer.Typer(add_completion=False)


@app.command()
def command(
    recipe: Annotated[
        str | None,
        typer.Argument(metavar="[RECIPE]", help="What to train; without it, list all recipes."),
    ] = None,
    init: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="autoinit, tuned as the recipe says, or another of "
            f"{', '.join(name for name in baselines.names() if name != 'autoinit')}.",
        ),
    ] = "autoinit",
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change the recipe: lr=0.005, data=folder:PATH, tuning.steps=100; repeatable.",
        ),
    ] = None,
    grid: Annotated[
        bool, typer.Option("--grid", help="Run the recipe's learning rates and weight decays.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="For the run; by default one in ./runs."),
    ] = None,
    device: Annotated[str, typer.Option(help="auto (the best there is), or cpu.")] = "auto",
    workers: Annotated[int, typer.Option(min=0, help="Processes that load images.")] = 0,
    seed: Seed = 0,
    threads: Threads = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Train a network of the paper by its recipe; a run that was stopped goes on.

    Start it by torchrun or accelerate launch to divide each batch among several processes.
    """
    if recipe is None:
        _list()
        return
    if device not in ("auto", "cpu"):
        raise CommandError(f"--device {device}: give auto or cpu; CUDA_VISIBLE_DEVICES picks one.")
    if threads:
        torch.set_num_threads(threads)
    quiet = quiet or os.environ.get("RANK", "0") != "0"
    chosen = training.find(recipe).with_settings(split(settings or []))
    training.check_init(init)
    run = _Run(init, seed, workers, None if device == "auto" else device, quiet)
    folder = out or Path("runs") / f"{recipe}-{init}-seed{seed}{'-grid' if grid else ''}"
    note(f"{chosen.name} from {init}, seed {seed}, in {folder}", quiet)
    if grid:
        run.grid(chosen, folder)
    else:
        run.single(chosen, folder)


def _list() -> None:
    rows = table("recipe", "what it is")
    for name in training.names():
        rows.add_row(name, training.find(name).about)
    output(quiet=False).print(rows)


class _Run:
    """What is the same for each point of a grid."""

    def __init__(self, init: str, seed: int, workers: int, device: str | None, quiet: bool) -> None:
        self.init = init
        self.options: dict[str, Any] = {"seed": seed, "workers": workers, "device": device}
        self.quiet = quiet
        self.out = sys.stdout  # as long as there is a bar, another stream takes its place

    def single(self, recipe: Recipe, folder: Path) -> None:
        with progress("training", self.quiet) as report:
            outcome = training.train(
                recipe,
                folder,
                self.init,
                progress=lambda what, done, total: report(done, total),
                finished=self._line,
                **self.options,
            )
        self._print(
            f"{outcome.accuracy:.2%} of the test images after {recipe.epochs} epochs: "
            f"{folder / 'metrics.csv'}"
        )

    def grid(self, recipe: Recipe, folder: Path) -> None:
        with progress("training", self.quiet) as report:
            rows = training.train_grid(
                recipe,
                folder,
                self.init,
                starting=lambda point: self._print(
                    f"lr {point.lr:g}, weight decay {point.weight_decay:g}"
                ),
                progress=lambda what, done, total: report(done, total),
                finished=self._line,
                **self.options,
            )
        shown = table("lr", "weight decay", "train", "test", "best")
        for row in rows:
            accuracies = (_percent(row[key]) for key in ("train_accuracy", "test_accuracy"))
            shown.add_row(
                f"{row['lr']:g}", f"{row['weight_decay']:g}", *accuracies, str(row["best"])
            )
        output(self.quiet).print(shown)
        self._print(f"The best was chosen by its test images: {folder / 'grid.csv'}")

    def _line(self, row: dict[str, float]) -> None:
        self._print(
            f"epoch {row['epoch']:>3}  lr {row['lr']:<8.3g} train {_percent(row['train_accuracy'])}"
            f" (loss {row['train_loss']:.3f})  test {_percent(row['test_accuracy'])}"
        )

    def _print(self, text: str) -> None:
        """Above the bar where that is on the same terminal, else to where results go."""
        if not self.quiet:
            same = self.out.isatty() and sys.stderr.isatty()
            print(text, file=sys.stdout if same else self.out, flush=True)


def _percent(value: object) -> str:
    """Not a number where the training diverged.

    >>> _percent(0.5), _percent("")
    ('50.00%', 'diverged')
    """
    is_number = isinstance(value, float) and math.isfinite(value)
    return f"{value:.2%}" if is_number else "diverged"
