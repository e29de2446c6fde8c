"""``critinit tune``."""

from __future__ import annotations

import math
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from critinit.cli._console import note, output, progress
from critinit.cli._finish import check_files, write_files
from critinit.cli._options import Files, Probes, Running, Subject, flat
from critinit.cli._prepare import prepare
from critinit.cli._tables import show_result
from critinit.cli._weights import save_weights
from critinit.cli.errors import CommandError
from critinit.losses import JKL, JLL, JSL, SquaredLoss
from critinit.report import Run
from critinit.result import Result
from critinit.solvers import SGD, Sweep
from critinit.solvers.sgd import Rate
from critinit.tuning import tune_

app = typer.Typer(add_completion=False)
_HOW = "Tuning"


class Loss(StrEnum):
    """What is minimised."""

    jkl = "jkl"
    jll = "jll"
    jsl = "jsl"


class Solver(StrEnum):
    """How."""

    sweep = "sweep"
    sgd = "sgd"


class Base(StrEnum):
    """What weights to start from."""

    own = "own"
    kaiming = "kaiming"
    orthogonal = "orthogonal"
    default = "default"


def _option(*names: str, **attributes: Any) -> Any:
    return typer.Option(*names, rich_help_panel=_HOW, **attributes)


@app.command()
@flat
def command(
    subject: Subject,
    running: Running,
    files: Files,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.safetensors",
            help="Write the tuned weights, for model.load_state_dict.",
            rich_help_panel="Files",
        ),
    ] = None,
    probes: Probes = 1,
    base: Annotated[
        Base, _option(help="Weights to start from: the model's own, or drawn afresh.")
    ] = Base.own,
    loss: Annotated[Loss, _option(help="J and K, log J alone, or J - 1 alone.")] = Loss.jkl,
    lam: Annotated[float, _option(min=0, help="Of jkl: the weight of K.")] = JKL().lam,
    solver: Annotated[
        Solver, _option(help="Block after block, or the paper's descent.")
    ] = Solver.sweep,
    lr: Annotated[str, _option(metavar="RATE", help="Of sgd: a number, bound or one-step.")] = str(
        SGD().lr
    ),
    steps: Annotated[int, _option(min=1, help="Of sgd: at most.")] = SGD().steps,
    scale: Annotated[
        list[str] | None,
        _option(metavar="PATTERN", help="Scale only these parameters; may be repeated."),
    ] = None,
) -> None:
    """Tune a network: multiply each parameter tensor by a scalar until every J is 1.

    The numbers after the tuning are measured by fresh probes, and of several --batches on one that
    was held back.
    """
    check_files(files.json, files.report, out)
    objective = _loss(loss, lam)
    method = Sweep() if solver is Solver.sweep else SGD(lr=_rate(lr), steps=steps)
    prepared = prepare(subject, running)
    with progress("tuning", running.quiet) as report:
        result = tune_(
            prepared.model,
            prepared.inputs,
            loss=objective,
            solver=method,
            scale=scale or None,
            base=None if base is Base.own else base.value,  # type: ignore[arg-type]
            probes=probes,
            generator=prepared.generator,
            progress=report,
        )
    run = prepared.run(loss=repr(objective), solver=repr(method))
    show_result(output(running.quiet), result, subject.model)
    if out:
        save_weights(prepared.model, out, _metadata(result, run))
        note(f"wrote {out}", running.quiet)
    write_files(files, result, run, running.quiet)


def _loss(name: Loss, lam: float) -> SquaredLoss:
    return {Loss.jkl: JKL(lam), Loss.jll: JLL(), Loss.jsl: JSL()}[name]


def _rate(text: str) -> Rate:
    match text:
        case "bound" | "one-step":
            return text
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate < math.inf:
        raise CommandError(f"--lr {text}: give a number above 0, or bound, or one-step.")
    return rate


def _metadata(result: Result, run: Run) -> dict[str, Any]:
    """What has to be known of weights that are found years later."""
    told = run.to_dict()
    keys = ("command", "model", "data", "seed", "loss", "solver", "versions")
    return {**{key: told[key] for key in keys}, "multipliers": result.multipliers}
