"""How good the sweep is beside 500 steps of the paper's SGD: writes ``docs/quality.md``.

Both tune on the same batch; every loss is measured afterwards with 64 fresh probes. Resumable:
finished runs are kept in ``benchmarks/quality.json``; ``--fresh`` forgets those of the sweep.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from models import resmlp_plain, vgg19_bn
from torch import Tensor, nn

import critinit
from critinit.models import mlp

HERE = Path(__file__).parent
RUNS = HERE / "quality.json"
PAGE = HERE.parent / "docs" / "quality.md"
STEPS = 500
BOTH = {"JLL": critinit.JLL(), "JKL(0.05)": critinit.JKL(0.05)}


@dataclass(frozen=True)
class Case:
    """A network, the shape of its batch, the parameters that are tuned, by what, and how."""

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    scale: type[nn.Module] | None = None
    losses: Mapping[str, Any] = field(default_factory=lambda: BOTH)
    rates: tuple[float, ...] = (0.01, 0.03, 0.1, 0.3)  # of gradient descent

    def build(self) -> tuple[nn.Module, Tensor]:
        torch.manual_seed(0)
        return self.make().train(), torch.randn(self.shape)


def cases() -> dict[str, Case]:
    found = {}
    for activation in (nn.ReLU, nn.Tanh, nn.GELU):
        for sigma_w in (0.5, 1.0, 3.0):
            make = partial(
                mlp, 256, 30, inputs=256, activation=activation, sigma_w=sigma_w, sigma_b=0.1
            )
            found[f"MLP 30×256 {activation.__name__} σ_w={sigma_w:g}"] = Case(make, (64, 256))
    large = {"losses": {"JKL(0.05)": critinit.JKL(0.05)}, "rates": (0.01, 0.03, 0.1)}
    found["VGG19_BN, γ and β"] = Case(vgg19_bn, (32, 3, 32, 32), nn.BatchNorm2d, **large)
    found["ResMLP-S12"] = Case(resmlp_plain, (8, 3, 32, 32), **large)
    return found


def judged(case: Case, loss: Any, solver: Any) -> float:
    """The loss after tuning, of the blocks that multipliers can move."""
    model, x = case.build()
    result = critinit.tune_(model, x, loss=loss, solver=solver, scale=case.scale)
    generator = torch.Generator().manual_seed(1)
    profile = critinit.measure(model, x, probes=64, generator=generator)
    counted = loss.includes(len(profile)) & movable(case, model, x) & (result.before.apjn > 0)
    j, k = profile.apjn[counted], profile.kernel
    return 0.5 * float(loss.residuals(j, k[:-1][counted], k[1:][counted]).square().sum())


def movable(case: Case, model: nn.Module, x: Tensor) -> Tensor:
    """Marks the blocks that hold a tuned parameter."""
    if case.scale is None:
        return torch.ones(len(critinit.trace(model, x)), dtype=torch.bool)
    owned = {id(p) for m in model.modules() if isinstance(m, case.scale) for p in m.parameters()}
    chain = critinit.trace(model, x)
    return torch.tensor([any(id(p) in owned for p in b.parameters.values()) for b in chain])


def run(case: Case, loss: Any, solver: Any) -> float | str:
    try:
        return judged(case, loss, solver)
    except critinit.CritinitError as error:
        return f"{type(error).__name__}: {error}"


HEAD = f"""\
# How good the sweep is

`make bench-quality` wrote this page. Each network is tuned on one batch of noise by the sweep, and
by {STEPS} steps of the paper's gradient descent (one Gaussian probe a step) at each of several
learning rates, of which the best counts. The loss afterwards is measured with 64 fresh probes on
that batch, over the blocks that a multiplier can move. *Diverged* rates ended in an infinite loss.

| network | loss | sweep | gradient descent | its rate | diverged | sweep / descent |
|---|---|---:|---:|---:|---:|---:|
"""


TAIL = """

Where it falls short, J and K conflict in the output block. The sweep takes what comes to that
block as given; the rounds over all blocks that follow see hardly any gain from there. Gradient
descent comes from far away and ends elsewhere, with K falling along the whole depth, which costs
every block a little and the last one less.
"""


def line(name: str, loss: str, runs: Mapping[str, Any]) -> tuple[str, bool]:
    """A row of the page, and whether the sweep is as good."""
    found = {
        key.rpartition("sgd ")[2]: value
        for key, value in runs.items()
        if key.startswith(f"{name} | {loss} | sgd ")
    }
    ended = {rate: value for rate, value in found.items() if not isinstance(value, str)}
    sweep, rate = runs[f"{name} | {loss} | sweep"], min(ended, key=lambda rate: ended[rate])
    row = (
        f"| {name} | {loss} | {sweep:.2g} | {ended[rate]:.2g} | {rate} | "
        f"{len(found) - len(ended)} of {len(found)} | {sweep / ended[rate]:.2g} |"
    )
    return row, sweep <= ended[rate]


def page(runs: Mapping[str, Any]) -> str:
    done = {tuple(key.split(" | ")[:2]) for key in runs if " | sgd " in key}
    known = [(name, loss) for name, case in cases().items() for loss in case.losses]
    rows = [line(name, loss, runs) for name, loss in known if (name, loss) in done]
    wins = sum(good for _, good in rows)
    verdict = f"The sweep's loss is at most that of gradient descent in {wins} of {len(rows)} rows."
    return HEAD + "\n".join(row for row, _ in rows) + f"\n\n{verdict}{TAIL}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="*", help="cases whose name contains one of these")
    parser.add_argument("--fresh", action="store_true", help="run the sweeps again")
    parser.add_argument("--sgd", action="store_true", help="run gradient descent where missing")
    options = parser.parse_args()
    torch.set_num_threads(1)
    runs: dict[str, Any] = json.loads(RUNS.read_text()) if RUNS.exists() else {}
    for name, case in cases().items():
        if options.only and not any(word in name for word in options.only):
            continue
        for loss_name, loss in case.losses.items():
            solvers: dict[str, Any] = {"sweep": critinit.Sweep()}
            if options.sgd:
                solvers |= {f"sgd {lr}": critinit.SGD(lr, STEPS, eps=0.0) for lr in case.rates}
            for solver_name, solver in solvers.items():
                key = f"{name} | {loss_name} | {solver_name}"
                if key not in runs or (options.fresh and solver_name == "sweep"):
                    value = run(case, loss, solver)
                    runs = json.loads(RUNS.read_text()) if RUNS.exists() else {}
                    runs[key] = value
                    RUNS.write_text(json.dumps(runs, indent=1, ensure_ascii=False) + "\n")
                    print(key, value, file=sys.stderr, flush=True)
    PAGE.write_text(page(runs))


if __name__ == "__main__":
    main()
