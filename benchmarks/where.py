"""Where critinit's own time goes: by phase, and by what autograd ran."""

from __future__ import annotations

import copy
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

from beside import build
from cost import forward_backward, seconds
from isolated import Point, Run
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

import critinit
from critinit import measurement, tuning
from critinit.chain import _trace
from critinit.chain._tape import Tape
from critinit.solvers._closed import ClosedForm
from critinit.solvers._equation import Equation
from critinit.solvers._plain import PlainLayer
from critinit.solvers._polish import Polish
from critinit.solvers._seen import BlockRun

MODELS = ("MLP 10×500", "VGG19_BN", "ViT-tiny")
# Where each phase begins: who owns the function, and its name.
PHASES: dict[str, tuple[tuple[Any, str], ...]] = {
    "find the blocks": ((_trace, "find_chain"),),
    "measure": ((measurement, "find_and_measure"), (tuning, "find_and_measure")),
    "closed form of a plain layer": (
        (PlainLayer, "found"),
        (ClosedForm, "found"),
        (ClosedForm, "minimized"),
        (ClosedForm, "at"),
    ),
    "J, by probes": ((BlockRun, "look"),),
    "derivatives by multipliers": ((Equation, "_derivative"),),
    "run a block again": ((Tape, "replay"),),
    "polish": ((Polish, "run"),),
}
REST = "the rest: the first run of each block, its bookkeeping"
NODES = 6  # kinds of autograd nodes in the table
ENGINE = "autograd::engine::evaluate_function: "


def points() -> dict[str, Run]:
    jobs = {"measure": measured, "tune_": tuned}
    return {
        f"profile | {name} | {what}": partial(profiled, name, job)
        for name in MODELS
        for what, job in jobs.items()
    }


def measured(model: nn.Module, x: Tensor) -> None:
    critinit.measure(model, x)


def tuned(model: nn.Module, x: Tensor) -> None:
    critinit.tune_(model, x)


def profiled(name: str, job: Callable[[nn.Module, Tensor], None]) -> Point:
    """Shares of the time by phase, and of what a profiler sees by kind of autograd node."""
    warnings.simplefilter("ignore")
    model, batches = build(name)
    x = batches[0][0]
    copies = [copy.deepcopy(model) for _ in range(3)]
    job(copies.pop(), x)
    unit = seconds(lambda: forward_backward(model, x))
    last = copies.pop()
    with phases() as spent:
        start = time.process_time()
        job(last, x)
        total = time.process_time() - start
    shares = {phase: value / total for phase, value in spent.items()}
    shares[REST] = 1 - sum(shares.values())
    return {"cost": total / unit, "phases": shares, "nodes": nodes(partial(job, copies.pop(), x))}


@contextmanager
def phases() -> Iterator[Counter[str]]:
    """Process times by phase; the inner one counts where they are nested."""
    spent: Counter[str] = Counter()
    running: list[str] = []
    since = time.process_time()

    def switch() -> None:
        nonlocal since
        now = time.process_time()
        if running:
            spent[running[-1]] += now - since
        since = now

    def timed(phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            switch()
            running.append(phase)
            try:
                return function(*args, **kwargs)
            finally:
                switch()
                running.pop()

        return run

    with ExitStack() as stack:
        for phase, places in PHASES.items():
            for owner, name in places:
                wrapped = timed(phase, getattr(owner, name))
                stack.enter_context(patch.object(owner, name, wrapped))
        yield spent


def nodes(job: Callable[[], None]) -> dict[str, float]:
    """The kinds of autograd nodes that took most, as shares of all that operators took."""
    with profile(activities=[ProfilerActivity.CPU], acc_events=True) as found:
        job()
    events = found.key_averages()
    total = sum(e.self_cpu_time_total for e in events)
    times = {
        e.key.removeprefix(ENGINE): e.cpu_time_total / total
        for e in events
        if e.key.startswith(ENGINE)
    }
    largest = sorted(times, key=lambda name: -times[name])[:NODES]
    return {name: times[name] for name in largest}
