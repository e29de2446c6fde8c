"""The terminal: results on the standard output, progress and notes on the standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

Report = Callable[[int, int], None]


def output(quiet: bool) -> Console:
    """Where results are printed."""
    return Console(quiet=quiet, highlight=False, markup=False, emoji=False)


def note(text: str, quiet: bool) -> None:
    """Say something beside the result."""
    if not quiet:
        print(text, file=sys.stderr)


@contextmanager
def no_results() -> Iterator[None]:
    """What is printed inside, by code that is the user's, goes to the standard error."""
    with redirect_stdout(sys.stderr):
        yield


@contextmanager
def progress(what: str, quiet: bool) -> Iterator[Report]:
    """A bar as long as the work lasts, told how much is done, and of how much; none in a pipe.

    What a network prints at work is no result.
    """
    if quiet or not sys.stderr.isatty():
        with no_results():
            yield lambda done, total: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn())
    counts = (MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, *counts, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(what, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total or None)
