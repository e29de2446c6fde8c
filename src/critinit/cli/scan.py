"""``critinit scan``."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from critinit.cli._console import output, progress
from critinit.cli._finish import check_files, write_files
from critinit.cli._options import Files, Probes, Running, Subject, flat
from critinit.cli._prepare import prepare
from critinit.cli._tables import show_scan
from critinit.cli.errors import CommandError
from critinit.scan import batch_scan

app = typer.Typer(add_completion=False)


@app.command()
@flat
def command(
    subject: Subject,
    running: Running,
    files: Files,
    sizes: Annotated[
        str,
        typer.Option(metavar="B1,B2,…", help="Instead of --batch."),
    ] = "2,4,8,16,32,64,128,256",
    tol: Annotated[float, typer.Option(help="How far log J may be off.")] = 0.05,
    probes: Probes = 1,
) -> None:
    """Measure J at several batch sizes, and say how large a batch must be.

    With BatchNorm J depends on it. Smaller sizes are averaged over as many examples, in up to 32
    batches.
    """
    check_files(files.json, files.report)
    wanted = _sizes(sizes)
    prepared = prepare(replace(subject, batch=max(wanted), batches=1), running)
    with progress("scanning", running.quiet) as report:
        scan = batch_scan(
            prepared.model,
            prepared.inputs,
            wanted,
            tol=tol,
            probes=probes,
            generator=prepared.generator,
            progress=report,
        )
    show_scan(output(running.quiet), scan)
    write_files(files, scan, prepared.run(), running.quiet)


def _sizes(text: str) -> list[int]:
    parts = text.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise CommandError(f"--sizes {text}: give numbers and commas, such as 8,32,128.")
    return [int(part) for part in parts]
