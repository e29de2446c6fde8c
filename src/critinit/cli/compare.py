"""``critinit compare``."""

from __future__ import annotations

import copy
import time
from typing import Annotated

import torch
import typer
from torch import nn

from critinit import baselines
from critinit.cli._console import Report, output, progress
from critinit.cli._finish import check_files, write_files
from critinit.cli._options import Files, Probes, Running, Subject, flat
from critinit.cli._prepare import Prepared, prepare
from critinit.cli._tables import show_comparison
from critinit.cli.errors import CommandError
from critinit.errors import CritinitError
from critinit.measurement import measure
from critinit.profile import Profile
from critinit.report import Comparison

app = typer.Typer(add_completion=False)

_USUAL = "default,kaiming,orthogonal,lsuv,autoinit"


@app.command()
@flat
def command(
    subject: Subject,
    running: Running,
    files: Files,
    init: Annotated[
        str,
        typer.Option(
            metavar="NAME,NAME,…",
            help=f"What to compare, of {', '.join(baselines.names())}.",
        ),
    ] = _USUAL,
    probes: Probes = 1,
) -> None:
    """Initialize a network in several ways: J, K and what each way costs, side by side."""
    check_files(files.json, files.report)
    chosen = [baselines.find(name.strip()) for name in dict.fromkeys(init.split(","))]
    prepared = prepare(subject, running)
    with progress("comparing", running.quiet) as report:
        comparison = _compared(prepared, chosen, probes, running.seed, report)
    show_comparison(output(running.quiet), comparison, subject.model)
    write_files(files, comparison, prepared.run(), running.quiet)


def _compared(
    prepared: Prepared,
    chosen: list[baselines.Baseline],
    probes: int,
    seed: int,
    report: Report,
) -> Comparison:
    """Each on a copy of the network, with the same batches and the same probes."""
    profiles: dict[str, Profile] = {}
    seconds: dict[str, float] = {}
    failed: dict[str, str] = {}
    for done, baseline in enumerate(chosen):
        report(done, len(chosen))
        model: nn.Module = copy.deepcopy(prepared.model)
        start = time.perf_counter()
        try:
            baseline(model, prepared.inputs, torch.Generator().manual_seed(seed))
            seconds[baseline.name] = time.perf_counter() - start
            profiles[baseline.name] = measure(
                model,
                prepared.inputs,
                probes=probes,
                generator=torch.Generator().manual_seed(seed + 1),
            )
        except CritinitError as error:
            failed[baseline.name] = str(error)
    if not profiles:
        name, why = next(iter(failed.items()))
        raise CommandError(f"none of the initializations worked; {name}: {why}")
    return Comparison(profiles, seconds, failed)
