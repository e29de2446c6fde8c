"""critinit beside what a user could take instead: cost, memory, and what comes out.

Every cost is in units of one forward and backward pass of the same model and batch in the same
process: process time, one thread, the median of rounds in turn.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from functools import partial

import torch
from cost import forward_backward, rounds, seconds
from isolated import Point, Run
from kept import Kept
from memory import peak
from models import BESIDE
from peers import METHODS, Batches, Method
from tasks import tasks
from torch import Tensor, nn

import critinit
from critinit.models import mlp

ROUNDS = 3
PATIENCE = 45.0  # seconds that the steps of one run may take
BATCHES = 4
PROBES = 16
UNIT = "forward and backward"


def points() -> dict[str, Run]:
    """The cheap ones first."""
    methods = sorted(METHODS.values(), key=lambda method: method.steps)
    memory = {
        f"memory | {model} | {name}": partial(memory_of, model, name)
        for name in (UNIT, *METHODS)
        for model in BESIDE
    }
    cost = {
        f"beside | {model} | {method.name}": partial(compared, model, method)
        for method in methods
        for model in BESIDE
    }
    return memory | cost


def build(name: str) -> tuple[nn.Module, list[tuple[Tensor, Tensor]]]:
    """The model in training mode, and batches: the last is held back."""
    make, shape = BESIDE[name]
    torch.manual_seed(0)
    return make().train(), tasks(shape, BATCHES + 1)


def compared(model_name: str, method: Method) -> Point:
    """One row: what it costs, what it reaches, what it changed besides."""
    warnings.simplefilter("ignore")
    model, batches = build(model_name)
    held_back = batches.pop()[0]
    row: Point = {"before": judged(model, held_back)}
    timed = stepwise if method.steps else at_once
    cost, model, changed = timed(model, batches, method)
    return {**row, **cost, "changed": changed, "after": judged(model, held_back)}


def at_once(
    model: nn.Module, batches: Batches, method: Method
) -> tuple[Point, nn.Module, list[str]]:
    """The cost of all of it, of several rounds, or after a long one just another."""
    kept, last, unit = Kept.of(model), copy.deepcopy(model), unit_of(model, batches)
    unit()
    warm = seconds(lambda: method.init(last, batches, 0), repeats=1)
    count = ROUNDS if warm < PATIENCE / ROUNDS else 1
    copies = [copy.deepcopy(model) for _ in range(count)]
    jobs = [unit, lambda: method.init(copies.pop(), batches, 0)]
    times = rounds(jobs, count, warm_up=False)
    return {"cost": [run / one for one, run in times]}, last, kept.changed(last)


def stepwise(
    model: nn.Module, batches: Batches, method: Method
) -> tuple[Point, nn.Module, list[str]]:
    """The cost of a step, and one run: the whole, or as many steps as there is patience for."""
    few, more = 1, 3
    copies = [copy.deepcopy(model) for _ in range(2 * (ROUNDS + 1))]
    jobs = [partial(lambda n: method.init(copies.pop(), batches, n), n) for n in (few, more)]
    times = rounds([unit_of(model, batches), *jobs], ROUNDS)
    steps = [(long - short) / (more - few) / one for one, short, long in times]
    a_step = max((long - short) / (more - few) for _, short, long in times)
    taken = min(method.steps, max(1, int(PATIENCE / max(a_step, 1e-9))))
    kept, last, used = Kept.of(model), copy.deepcopy(model), copy.deepcopy(model)
    unit = unit_of(used, batches)
    before = seconds(unit)
    run = seconds(lambda: method.init(last, batches, taken), repeats=1)
    one = (before + seconds(unit)) / 2
    total = run / one + (method.steps - taken) * sorted(steps)[ROUNDS // 2]
    return {"step": steps, "cost": [total], "taken": taken}, last, kept.changed(last)


def unit_of(model: nn.Module, batches: Batches) -> Callable[[], object]:
    used = copy.deepcopy(model)
    return lambda: forward_backward(used, batches[0][0])


def judged(model: nn.Module, images: Tensor) -> Point:
    """The largest |log J| and |log K ratio| of the hidden blocks that pass a gradient."""
    generator = torch.Generator().manual_seed(2)
    try:
        profile = critinit.measure(model, images, probes=PROBES, generator=generator)
    except critinit.CritinitError as error:
        return {"not measured": f"{type(error).__name__}: {str(error)[:120]}"}
    alive = profile.is_hidden & (profile.apjn > 0)
    dead = int((profile.is_hidden & ~alive).sum())
    ratio = profile.kernel_ratio.log().abs()[alive]
    return {"j": float(profile.log_apjn[alive].abs().max()), "k": float(ratio.max()), "dead": dead}


def memory_of(model_name: str, method: str) -> Point:
    """MiB above what is there before; two steps of what iterates."""
    warnings.simplefilter("ignore")
    small, few = mlp(16, 2, inputs=16), tasks((4, 16), BATCHES)
    model, batches = build(model_name)

    def run(model: nn.Module, batches: Batches) -> None:
        if method == UNIT:
            forward_backward(model, batches[0][0])
        else:
            METHODS[method].init(model, batches, 2)

    return {"mib": peak(partial(run, model, batches), partial(run, small, few))}
