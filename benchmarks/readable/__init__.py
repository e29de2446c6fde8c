"""``docs/benchmarks.md``, wholly from ``results.json``."""

from __future__ import annotations

from typing import Any

from models import BESIDE
from peers import METHODS

from readable import _beside, _edges, _scaling, _where
from readable._tables import table

INTRO = """\
# critinit beside what you could take instead

`make bench` measured this, `benchmarks/results.json` holds every figure, and this page is written
from that file alone. Costs are in units of one forward and backward pass of the same model and
batch in the same process: process time, one thread, in turns. Inputs are noise, with labels that
can be learned from them; models are in training mode, as their libraries draw them.

The yardstick of quality here, J and K of every block, is what critinit tunes by, so it ought to win
by it. What each method is worth for training is in [training.md](training.md). The GradInit and
MetaInit *algorithms* were written for this page from what their papers say; they do not stand for
their authors' code. Where MetaInit fails, torch lacks a third derivative.

"""


def page(results: dict[str, Any]) -> str:
    points = results["points"]
    versions = ", ".join(f"{name} {v}" for name, v in results["versions"].items())
    shapes = ", ".join(f"{name} {'×'.join(map(str, shape))}" for name, (_, shape) in BESIDE.items())
    lines = [
        *table(["", "what is run"], ([m.name, m.about] for m in METHODS.values()), words=True),
        f"Batches: {shapes}. Versions: {versions}.",
        "",
        "## In short",
        "",
        "Cost of the whole, in forward and backward passes: the median over the models, the least "
        "and the largest.",
        "",
        *_beside.findings(points),
        *_edges.findings(points),
        *_scaling.findings(points),
        *_where.findings(points),
        *_beside.section(points),
        *_edges.section(points),
        *_scaling.section(points),
        *_where.section(points),
    ]
    return INTRO + "\n".join(lines).rstrip() + "\n"
