"""The program: what it is called with, and how it ends.

It exits with 0 when all went well, 1 when ``--check`` found a network that is not critical, 2 on
bad input or failure, with one line on the standard error, and 130 on Ctrl-C.
"""

from __future__ import annotations

import atexit
import errno
import os
import signal
import sys
import traceback
from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated, Any, NoReturn

import typer
from typer._click.exceptions import ClickException  # typer has no public name for it

from critinit.cli._commands import Commands
from critinit.cli.errors import is_out_of_memory
from critinit.errors import CritinitError

_INTERRUPTED = 130
_BROKEN_OUTPUT = (errno.ENOSPC, errno.EIO, errno.EBADF, errno.EPIPE)

app = typer.Typer(cls=Commands, add_completion=False, rich_markup_mode="rich")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"critinit {version('critinit')}")
        raise typer.Exit


@app.callback(invoke_without_command=True, epilog="Each command has its own --help.")
def _root(
    context: typer.Context,
    _: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Say which."),
    ] = False,
) -> None:
    """Is a PyTorch network critical at initialization? Measure it, and make it so."""
    if context.invoked_subcommand is None:
        print(context.get_help())


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line, and end the process."""
    given = sys.argv[1:] if arguments is None else arguments
    # None if it was closed by `>&-`; the process ends with it, so nobody closes its stand-in.
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal without these characters shows others
            stream.reconfigure(errors="replace")
    if arguments is None and hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as `head` expects
    status = _status(lambda: _run(given), debug="--debug" in given)
    if status == _INTERRUPTED and arguments is None:
        # Python ends by the signal, not by the status, if Ctrl-C met code that came from a string.
        atexit._run_exitfuncs()  # joblib's takes care of its workers and their semaphores
        os._exit(status)
    sys.exit(status)


def _run(arguments: list[str]) -> int:
    command: Any = typer.main.get_command(app)
    try:
        with command.make_context("critinit", arguments) as context:
            command.invoke(context)
        sys.stdout.flush()
    except typer.Exit as end:
        return end.exit_code
    return 0


def _status(run: Callable[[], int], debug: bool) -> int:
    """What ``run`` returns; of what it raises, one line on the standard error."""
    try:
        return run()
    except KeyboardInterrupt:
        return _ended("interrupted", _INTERRUPTED)
    except (Exception, SystemExit) as error:
        if debug:
            traceback.print_exc()
        return _ended(_line(error), 2)


def _line(error: Exception | SystemExit) -> str:
    if isinstance(error, ClickException):
        near: list[str] | None = getattr(error, "possibilities", None)
        return f"{error}. Did you mean {' or '.join(near)}?" if near else error.format_message()
    if isinstance(error, CritinitError):
        return str(error)
    if isinstance(error, SystemExit):
        return f"the network ended the program (SystemExit: {error}): take the exit out of it."
    if is_out_of_memory(error):
        return "there is not enough memory. Give a smaller --batch, --size or --set."
    if isinstance(error, OSError) and error.filename is None and error.errno in _BROKEN_OUTPUT:
        return f"the standard output cannot be written: {error.strerror}."
    return f"{type(error).__name__}: {error}. This was not foreseen: --debug shows where it was."


def _ended(line: str, status: int) -> int:
    print(f"critinit: {' '.join(line.split())}", file=sys.stderr, flush=True)
    return status
