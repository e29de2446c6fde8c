"""What tuning costs beside one training step: writes ``docs/tuning-cost.md``.

Every figure is a ratio to one forward and backward pass of the same model and batch in this run.
"""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import Any

import torch
from cost import forward_backward, seconds
from models import TUNED
from timed import Timed
from torch import nn

import critinit

PAGE = Path(__file__).parents[1] / "docs" / "tuning-cost.md"
REPEATS = 5
LOSSES = (critinit.JLL(), critinit.JKL(0.05))

HEAD = f"""\
# What tuning costs

`make bench-tune` wrote this page. The unit is one forward and backward pass of the same model and
batch in the same run: process time, one thread, median of {REPEATS} (torch {{torch}}). In brackets
the mark that was set before.

| model | batch | sweep, J | sweep, J and K | one step of SGD | `tune_`, J | `tune_`, J and K |
|---|---:|---:|---:|---:|---:|---:|
"""

TAIL = """
*Sweep* is the whole of `critinit.Sweep()`: every block solved and confirmed, and what is polished
afterwards, by `JLL()` (J) and `JKL(0.05)` (J and K). *One step of SGD* is a step of the paper's
Algorithm 1 with one probe and `JKL(0.05)`; the paper takes 392 to 500 of them. `tune_` is what a
user waits for: finding the blocks, measuring before, the sweep, measuring after, and folding.
"""


def row(name: str) -> str:
    make, shape, scale, marks = TUNED[name]
    torch.manual_seed(0)
    model, x = make().train(), torch.randn(shape)
    unit = seconds(lambda: forward_backward(model, x), REPEATS)

    def cost_of(solver: Any, loss: Any) -> float:
        timed = Timed(solver, REPEATS)
        critinit.tune_(copy.deepcopy(model), x, loss=loss, solver=timed, scale=scale)
        return timed.seconds / unit

    def whole(loss: Any) -> float:
        copies: list[nn.Module] = [copy.deepcopy(model) for _ in range(REPEATS + 1)]
        run = lambda: critinit.tune_(copies.pop(), x, loss=loss, scale=scale)  # noqa: E731
        return seconds(run, REPEATS) / unit

    sweeps = [cost_of(critinit.Sweep(), loss) for loss in LOSSES]
    two_steps = cost_of(critinit.SGD(steps=1, eps=0.0), LOSSES[1])  # and the evaluation at the end
    costs = zip([*sweeps, two_steps / 2], marks, strict=True)
    shown = [f"{cost:.2f} ({mark:g})" for cost, mark in costs]
    shown += [f"{whole(loss):.2f}" for loss in LOSSES]
    return f"| {name} | {shape[0]} | {' | '.join(shown)} |"


def main() -> None:
    torch.set_num_threads(1)
    rows = []
    for name in TUNED:
        rows.append(row(name))
        print(rows[-1], file=sys.stderr, flush=True)
    head = HEAD.format(torch=torch.__version__.partition("+")[0])
    PAGE.write_text(head + "\n".join(rows) + "\n" + TAIL)


if __name__ == "__main__":
    main()
