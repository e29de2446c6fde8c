"""``make bench-quick``: have the costs of critinit grown? Exits with 1 where they have.

Each ratio to one forward and backward pass is compared with the one in ``results.json``.
"""

from __future__ import annotations

import copy
import statistics
import sys
import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from cost import forward_backward, seconds
from isolated import Point, Run, isolated
from models import TUNED
from results import load
from timed import Timed

import critinit

LIMIT = 1.5
ROUNDS = 3
PATIENCE = 170.0  # seconds for a model
PREFIX = "guard | "


def points() -> dict[str, Run]:
    return {PREFIX + name: partial(costs, name) for name in TUNED}


def costs(name: str) -> Point:
    """Medians of rounds in which all take turns."""
    warnings.simplefilter("ignore")
    make, shape, scale, _ = TUNED[name]
    torch.manual_seed(0)
    model, x = make().train(), torch.randn(shape)

    def solving(solver: Any, loss: Any) -> float:
        timed = Timed(solver)
        critinit.tune_(copy.deepcopy(model), x, loss=loss, solver=timed, scale=scale)
        return timed.seconds

    def once() -> dict[str, float]:
        unit = seconds(lambda: forward_backward(model, x), repeats=1)
        descent = solving(critinit.SGD(steps=1, eps=0.0), critinit.JKL(0.05))
        taken = {
            "measure": seconds(lambda: critinit.measure(model, x), repeats=1),
            "trace": seconds(lambda: critinit.trace(model, x), repeats=1),
            "sweep, J": solving(critinit.Sweep(), critinit.JLL()),
            "sweep, J and K": solving(critinit.Sweep(), critinit.JKL(0.05)),
            "a step of descent": descent / 2,  # it evaluates once more at the end
        }
        return {what: value / unit for what, value in taken.items()}

    found = [once() for _ in range(ROUNDS)]
    return {what: statistics.median(r[what] for r in found) for what in found[0]}


def grown(found: Mapping[str, Point], committed: Mapping[str, Point]) -> list[str]:
    """What costs more than it may, in words; what is not committed cannot be judged."""
    complaints = []
    for name, point in found.items():
        if "failed" in point:
            complaints.append(f"{name}: {point['failed']}")
            continue
        for what, ratio in point.items():
            was = committed.get(name, {}).get(what)
            if was is None:
                complaints.append(f"{name}: no {what} in results.json. Run `make bench`.")
            elif ratio > LIMIT * was:
                complaints.append(f"{name}: {what} costs {ratio:.2f}, was {was:.2f}")
    return complaints


def main() -> None:
    committed, found = load()["points"], {}
    for name, run in points().items():
        found[name] = isolated(run, PATIENCE)
        shown = {w: f"{x:.2f}" if isinstance(x, float) else x for w, x in found[name].items()}
        print(name, shown, flush=True)
    complaints = grown(found, committed)
    print("\n".join(complaints) or f"Nothing costs more than {LIMIT} times what was committed.")
    sys.exit(bool(complaints))


if __name__ == "__main__":
    main()
