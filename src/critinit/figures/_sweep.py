"""Compute what is missing of a table: here, on several processors, or on a cluster."""

from __future__ import annotations

import signal
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import torch

from critinit._optional import optional
from critinit.errors import CritinitError
from critinit.figures._figure import Figure, Point, Row, Settings
from critinit.figures._registry import find
from critinit.figures._table import Table
from critinit.figures._versions import versions
from critinit.figures.errors import FigureError

_PATIENCE = 10  # seconds, for a scheduler to answer
Progress = Callable[[int, int], None]


def fill(
    table: Table,
    figure: Figure,
    settings: Settings,
    *,
    workers: int = 1,
    cluster: str | None = None,
    device: str = "cpu",
    progress: Progress = lambda done, total: None,
) -> int:
    """Append a row for every point that has none yet; returns how many these were.

    Points are given out in groups (`Figure.together`). A row is written as soon as its group is
    done, in whatever order that happens.
    """
    points = figure.points(settings)
    with table.opened():
        groups = figure.together(settings, table.missing(points), torch.device(device))
        total = sum(map(len, groups))
        done = 0
        progress(done, total)
        with _results(figure.name, settings, groups, workers, cluster, device) as results:
            for rows in results:
                for row in rows:
                    table.append(row)
                    done += 1
                progress(done, total)
    return done


def compute_group(name: str, settings: Settings, points: Sequence[Point], device: str) -> list[Row]:
    """The rows of some points, in any process: with one thread, whoever runs beside it."""
    figure = find(name)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    start = time.thread_time()
    try:
        results = list(figure.compute(settings, points, torch.device(device)))
    except CritinitError as error:
        raise FigureError(f"{name}, {_few(points)}: {error}") from error
    finally:
        torch.set_num_threads(threads)
    cost = {"seconds": (time.thread_time() - start) / len(points), **versions()}
    return [{**p, **found, **cost} for p, found in zip(points, results, strict=True)]


@contextmanager
def _results(
    name: str,
    settings: Settings,
    groups: Sequence[Sequence[Point]],
    workers: int,
    cluster: str | None,
    device: str,
) -> Iterator[Iterator[list[Row]]]:
    if cluster is None and workers == 1:
        yield (compute_group(name, settings, group, device) for group in groups)
        return
    joblib = optional("joblib", "more than one worker", "sweep", FigureError)
    tasks = (joblib.delayed(compute_group)(name, settings, group, device) for group in groups)
    options: dict[str, Any] = {"return_as": "generator_unordered", "batch_size": 1}
    with warnings.catch_warnings():
        # A worker whose memory has grown is replaced, and Ctrl-C cancels what is in flight: nothing
        # that a user could mend.
        warnings.filterwarnings("ignore", "A worker stopped while", UserWarning)
        warnings.filterwarnings("ignore", ".* still being processed by the workers", UserWarning)
        if cluster is None:
            options["initializer"] = _leave_ctrl_c_to_the_caller
            with closing(joblib.Parallel(workers, **options)(tasks)) as results:
                yield results
            return
        with (
            _client(cluster),
            joblib.parallel_config("dask"),
            closing(joblib.Parallel(pre_dispatch="all", **options)(tasks)) as results,
        ):
            yield results


def _leave_ctrl_c_to_the_caller() -> None:
    """A terminal sends it to the workers, too, which would each say where they were."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _client(address: str) -> Any:
    distributed = optional("distributed", "a cluster", "sweep", FigureError)
    try:
        return distributed.Client(address, timeout=_PATIENCE)
    except OSError as error:
        raise FigureError(
            f"there is no Dask scheduler at {address} ({error}). Start one with `dask scheduler`, "
            "and workers with `dask worker`."
        ) from error


def _few(points: Sequence[Point]) -> str:
    first = ", ".join(f"{key}={value}" for key, value in points[0].items())
    return first if len(points) == 1 else f"{first} and {len(points) - 1} more points"
