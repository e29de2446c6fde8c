"""critinit: the sweep, the paper's gradient descent, and the sweep after an orthogonal draw."""

from __future__ import annotations

from typing import Any

from torch import nn

import critinit
from peers._method import Batches, Initialize, Method

STEPS = 500  # of the paper's Algorithm 1


def sweep(loss: Any) -> Initialize:
    def init(model: nn.Module, batches: Batches, _: int) -> critinit.Result:
        return critinit.tune_(model, batches[0][0], loss=loss)

    return init


def descent(model: nn.Module, batches: Batches, steps: int) -> critinit.Result:
    images = [x for x, _ in batches]
    return critinit.tune_(model, [images[0], *images], solver=critinit.SGD(steps=steps, eps=0.0))


def autoinit(model: nn.Module, batches: Batches, _: int) -> critinit.Result:
    return critinit.autoinit_(model, batches[0][0])


METHODS = (
    Method("sweep, J", "`critinit.tune_(model, x, loss=JLL())`", sweep(critinit.JLL()), aim="J"),
    Method("sweep, J and K", "`critinit.tune_(model, x)`: `JKL(0.05)`", sweep(None), aim="J"),
    Method(
        "autoinit",
        "`critinit.autoinit_(model, x)`: orthogonal weights, drawn biases, a sweep",
        autoinit,
        aim="J",
    ),
    Method(
        "paper's descent",
        f"`critinit.tune_(..., solver=SGD(steps={STEPS}))`: Algorithm 1 with `JKL(0.05)`, η = 0.03",
        descent,
        STEPS,
        aim="J",
    ),
)
