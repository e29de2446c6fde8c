"""``critinit demo``."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table
from torch import nn

from critinit._files import write_text
from critinit.cli._console import output, progress
from critinit.cli._finish import check_files
from critinit.cli._options import Debug, Quiet, Seed, Threads
from critinit.cli._prepare import command_line
from critinit.cli._race import Runner, accuracy, best, race
from critinit.cli._tables import show_result, table
from critinit.data import Dataset, load
from critinit.models import mlp
from critinit.report import Chart, Line, Run, Section, html
from critinit.result import Result
from critinit.tuning import tune_

app = typer.Typer(add_completion=False)

DEFAULT, TUNED = "default", "tuned"
RATES = (0.0001, 0.0003, 0.001, 0.01, 0.1)
_NETWORK = "A 50-layer ReLU network, as PyTorch draws it"
_WIDTH, _DEPTH = 128, 50
_BATCH = 256  # images to tune on


@app.command()
def command(
    report: Annotated[
        Path, typer.Option(metavar="FILE.html", help="Where to write the page.")
    ] = Path("report.html"),
    steps: Annotated[int, typer.Option(min=1, help="Of each training.")] = 250,
    seed: Seed = 0,
    threads: Threads = 1,  # the layers are too small for more to help
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Watch a 50-layer network learn nothing, and learn once it is tuned.

    The network is measured, a copy of it tuned, and both are trained on real pictures (the
    handwritten digits inside scikit-learn), on the same batches and at the same learning rates.
    """
    check_files(report)
    torch.set_num_threads(threads or 1)
    console = output(quiet)
    images, judges = load("digits"), load("digits", "test")
    networks, result = _tuned(images, seed, quiet)
    show_result(console, result, _NETWORK, most=9)
    console.print(f"\nBoth are trained on the digits, {steps} steps at each learning rate.")
    console.print("Accuracy on images that were held back (chance is 10 %):\n")
    with _board(console) as watch:
        runners = race(networks, RATES, images, steps, seed, watch)
    section = _section(runners, judges, steps)
    console.print(f"\n{section.text.splitlines()[0]}")
    run = Run(command=command_line(), model=_NETWORK, data="digits", seed=seed)
    write_text(report, html(result, run=run, sections=[section]))
    console.print(f"The report is {report.resolve()}", soft_wrap=True)


def _tuned(images: Dataset, seed: int, quiet: bool) -> tuple[dict[str, nn.Module], Result]:
    """The network as it is drawn, and a copy that is tuned."""
    torch.manual_seed(seed)
    default = mlp(_WIDTH, _DEPTH, inputs=images.images[0].numel())
    tuned = copy.deepcopy(default)
    draw = torch.Generator().manual_seed(seed)
    batch = images.normalized(torch.randperm(len(images), generator=draw)[:_BATCH])
    with progress("tuning", quiet) as told:
        result = tune_(tuned, batch, generator=draw, progress=told)
    return {DEFAULT: default, TUNED: tuned}, result


@contextmanager
def _board(console: Console) -> Iterator[Callable[[Sequence[Runner]], None]]:
    """The standing, renewed as long as the race goes on; in a pipe, once at its end."""
    last: list[Sequence[Runner]] = []
    if console.is_terminal and not console.quiet:
        with Live(console=console, refresh_per_second=8) as live:
            yield lambda runners: live.update(_standing(runners))
    else:
        yield last.append
        console.print(_standing(last[-1]))


def _standing(runners: Sequence[Runner]) -> Table:
    """A row for each network, a column for each rate."""
    made = table("network", *(f"{rate:g}" for rate in RATES))
    for name in (DEFAULT, TUNED):
        cells = ["…" if not r.steps else f"{r.accuracy:.0%}" for r in runners if r.name == name]
        made.add_row(name, *cells, style="green" if name == TUNED else "")
    return made


def _section(runners: Sequence[Runner], judges: Dataset, steps: int) -> Section:
    """What came of it, for the report; the first line says it all."""
    chosen = [best(runners, name) for name in (DEFAULT, TUNED)]
    y = judges.labels
    assert y is not None
    tested = [accuracy(r.model, judges.normalized(), y) for r in chosen]
    found = ", ".join(
        f"{r.name} network {score:.1%} (at its best learning rate, {r.rate:g})"
        for score, r in zip(tested, chosen, strict=True)
    )
    rates = ", ".join(f"{rate:g}" for rate in RATES)
    text = (
        f"Of {len(y)} test images are named rightly: {found}.\n\n"
        f"Both were trained for {steps} steps of SGD with momentum 0.9 at each of the learning "
        f"rates {rates}, on the same batches of 64 digits. The rate of each was chosen on images "
        "held back from the training set; the test images were looked at once, at the end."
    )
    charts = [
        Chart(
            "Accuracy on the images held back",
            "step",
            "accuracy",
            [Line(r.name, r.steps, r.accuracies) for r in chosen],
            text="Each network at its best learning rate. Chance is 0.1.",
        ),
        Chart(
            "Training loss",
            "step",
            "cross entropy",
            [Line(r.name, r.steps, r.losses) for r in chosen],
            log=True,
        ),
    ]
    return Section("Training", text, charts)
