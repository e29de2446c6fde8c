"""``critinit measure``."""

from __future__ import annotations

import math
from typing import Annotated

import typer

from critinit.cli._console import note, output, progress
from critinit.cli._finish import check_files, write_files
from critinit.cli._options import Files, Probes, Running, Subject, flat
from critinit.cli._prepare import prepare
from critinit.cli._tables import show_blocks, show_profile
from critinit.cli.errors import CommandError
from critinit.errors import CritinitError
from critinit.measurement import Method, measure

app = typer.Typer(add_completion=False)


@app.command()
@flat
def command(
    subject: Subject,
    running: Running,
    files: Files,
    probes: Probes = 1,
    method: Annotated[
        Method, typer.Option(help="The paper's estimator, forward mode, or the full Jacobian.")
    ] = "vjp",
    span: Annotated[int, typer.Option(min=1, help="Blocks that each J spans.")] = 1,
    check: Annotated[
        float | None,
        typer.Option(metavar="TOL", help="Exit with 1 unless every |log J| is below TOL."),
    ] = None,
) -> None:
    """Measure J and K of every block of a network.

    J is how much a block scales the squared norm of a gradient: below 1 gradients vanish with
    depth, above they explode. K is the mean square of the signal.
    """
    if check is not None and not 0 < check < math.inf:
        raise CommandError(f"--check {check:g}: give a finite number above 0.")
    check_files(files.json, files.report)
    prepared = prepare(subject, running)
    console = output(running.quiet)
    try:
        with progress("measuring", running.quiet) as report:
            profile = measure(
                prepared.model,
                prepared.inputs,
                span=span,
                probes=probes,
                method=method,
                generator=prepared.generator,
                progress=report,
            )
    except CritinitError as error:
        if error.profile is not None:
            show_blocks(console, error.profile)
        raise
    show_profile(console, profile, subject.model)
    write_files(files, profile, prepared.run(), running.quiet)
    if check is not None and not profile.is_critical(check):
        note(f"critinit: not critical within --check {check:g}", running.quiet)
        raise typer.Exit(1)
