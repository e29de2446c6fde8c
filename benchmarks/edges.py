"""Awkward networks: does a method work on them, fail, or get them wrong without a word?"""

from __future__ import annotations

import math
import warnings
from functools import partial

import torch
from awkward import AWKWARD
from isolated import Point, Run, one_line
from kept import Kept
from peers import METHODS, Method
from tasks import tasks
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

import critinit

STEPS = 100  # at most, of what iterates: these networks are small
PROBES = 16
NEAR = 0.1  # |log J| this small needs no improvement
TOLERANCE = 0.2  # of the standard deviation behind a layer


def points() -> dict[str, Run]:
    return {
        f"edges | {name} | {method.name}": partial(tried, name, method)
        for name in AWKWARD
        for method in METHODS.values()
    }


def tried(name: str, method: Method) -> Point:
    """``outcome``: works, refuses, fails, says so (that it fell short) or wrong; and ``why``."""
    warnings.simplefilter("ignore")
    awkward = AWKWARD[name]
    model = awkward.build()
    batches = [(awkward.batch(x), y) for x, y in tasks(awkward.shape, 3)]
    held_back = batches.pop()[0]
    kept, before = Kept.of(model), farthest(model, held_back)
    weights = {n: p.detach().clone() for n, p in model.named_parameters() if p.ndim > 1}
    try:
        result = method.init(model, batches, min(method.steps, STEPS))
    except critinit.CritinitError as error:
        return {"outcome": "refuses", "why": one_line(error)}
    except Exception as error:
        return {"outcome": "fails", "why": one_line(error)}
    if why := broken(model, kept):
        return {"outcome": "wrong", "why": "; ".join(why)}
    why = unchanged(model, weights)
    if not why and method.aim == "J":
        why = missed_j(before, farthest(model, held_back))
    if not why and method.aim == "variance":
        why = missed_variance(model, held_back)
    if not why:
        return {"outcome": "works", "why": ""}
    told = isinstance(result, critinit.Result) and not result.converged
    return {"outcome": "says so" if told else "wrong", "why": "; ".join(why)}


def broken(model: nn.Module, kept: Kept) -> list[str]:
    """What nobody may do."""
    found = [f"changes {what}" for what in kept.changed(model)]
    if not all(bool(torch.isfinite(p).all()) for p in model.parameters()):
        found.append("leaves NaN or infinity")
    return found


def unchanged(model: nn.Module, weights: dict[str, Tensor]) -> list[str]:
    now = dict(model.named_parameters())
    same = all(n in now and torch.equal(now[n], w) for n, w in weights.items())
    return ["changes no weight"] if same else []


def farthest(model: nn.Module, x: Tensor) -> float:
    """The largest |log J| of the hidden blocks that pass a gradient and are not frozen."""
    try:
        profile = critinit.measure(model, x, probes=PROBES)
    except critinit.CritinitError:
        return math.nan
    alive = profile.is_hidden & (profile.apjn > 0) & free_to_move(model, x)
    return float(profile.log_apjn[alive].abs().max()) if bool(alive.any()) else math.nan


def free_to_move(model: nn.Module, x: Tensor) -> Tensor:
    """Marks the blocks that hold a parameter which is not frozen."""
    asked = {name: p.requires_grad for name, p in model.named_parameters()}
    return torch.tensor(
        [any(asked.get(n, True) for n in block.parameters) for block in critinit.trace(model, x)]
    )


def missed_j(before: float, after: float) -> list[str]:
    if after < max(NEAR, before):
        return []
    return [f"largest |log J| from {before:.2g} to {after:.2g}"]


def missed_variance(model: nn.Module, x: Tensor) -> list[str]:
    """The standard deviation behind every layer that is called, in evaluation mode."""
    spreads: list[float] = []
    layers = [m for m in model.modules() if isinstance(m, nn.Linear | _ConvNd)]
    hooks = [
        layer.register_forward_hook(lambda _, __, out: spreads.append(float(out.float().std())))
        for layer in layers
    ]
    modes = [(m, m.training) for m in model.modules()]
    with torch.no_grad():
        model.eval()(x)
    for hook in hooks:
        hook.remove()
    for module, mode in modes:
        module.training = mode
    if not spreads:
        return ["finds no layer"]
    worst = max(spreads, key=lambda s: abs(math.log(s)) if s > 0 else math.inf)
    return [] if abs(worst - 1) <= TOLERANCE else [f"standard deviation {worst:.2g} behind a layer"]
