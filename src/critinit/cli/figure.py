"""``critinit figure``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from critinit import figures
from critinit.cli._console import note, output, progress
from critinit.cli._options import Debug, Quiet
from critinit.cli._settings import guessed, split
from critinit.cli._tables import table

app = typer.Typer(add_completion=False)

_WHERE = "Where it runs"


class Scale(StrEnum):
    """How much is computed."""

    smoke = "smoke"
    small = "small"
    paper = "paper"


@app.command()
def command(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Which; without it, all are listed.")
    ] = None,
    scale: Annotated[
        Scale, typer.Option(help="Seconds, minutes on two processors, or what the paper did.")
    ] = Scale.small,
    folder: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where the table and the picture go.")
    ] = Path("figures"),
    data: Annotated[
        str | None,
        typer.Option(metavar="DATA", help="Instead of the figure's own: cifar10, gaussian, …"),
    ] = None,
    runs: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="What `critinit train` left, for figures of training."),
    ] = None,
    settings: Annotated[
        list[str],
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Another setting; makes a table of its own."
        ),
    ] = [],  # noqa: B006  # typer copies it
    workers: Annotated[
        int, typer.Option(min=1, help="Processes on this machine.", rich_help_panel=_WHERE)
    ] = 1,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="tcp://…", help="A Dask scheduler to use instead.", rich_help_panel=_WHERE
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, …", rich_help_panel=_WHERE)] = "cpu",
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Compute and draw a figure of the paper, beside what theory predicts.

    Points are kept as they finish: run it again after an interruption, and it goes on.
    """
    if name is None:
        _list()
        return
    changes: dict[str, Any] = guessed(split(settings))
    changes |= {} if data is None else {"data": data}
    changes |= {} if runs is None else {"runs": str(runs)}
    with progress("computing points", quiet) as report:
        drawn = figures.run(
            name,
            scale.value,
            folder=folder,
            changes=changes,
            workers=workers,
            cluster=cluster,
            device=device,
            progress=report,
        )
    if not quiet:
        print(drawn)
    note(f"{drawn.computed} points computed now; wrote {drawn.picture} and {drawn.table}", quiet)


def _list() -> None:
    rows = table("figure", "what it is")
    for name in figures.names():
        rows.add_row(name, figures.find(name).shows)
    output(quiet=False).print(rows)
