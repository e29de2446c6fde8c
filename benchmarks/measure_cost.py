"""What measuring costs, and where it goes: writes ``docs/cost.md``.

Every figure is a ratio to one forward and backward pass of the same model and batch in this run.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from cost import forward_and_input_backward, forward_backward, ratios
from models import MODELS, build

import critinit
from critinit._state import untouched
from critinit.chain._inputs import first_tensor, read_batches
from critinit.chain._trace import find_chain

PAGE = Path(__file__).parents[1] / "docs" / "cost.md"
REPEATS = 9

HEAD = f"""\
# What measuring costs

`make bench-measure` wrote this page. The unit is one forward and backward pass of the same model
and batch in the same run: process time, one thread, median of {REPEATS} rounds in which
all take turns (torch {{torch}}).

| model | batch | floor | find the blocks | measure a known chain | **measure** | trace | jvp |
|---|---:|---:|---:|---:|---:|---:|---:|
"""

TAIL = """
*Floor* is what no measurement can go below: one forward pass and one backward pass to the input
only, without weight gradients. *Measure* is `critinit.measure(model, batch)` with one probe, as a
user calls it: it finds the blocks on one example (two where BatchNorm is in training mode), by a
sketch of the run that leaves out the products of linear layers and attention, and the Python of
looking at every call; and then it walks the chain once. The mark is 0.95, on VGG19_BN, ResMLP-S12
and ViT-tiny. What the walk adds to the floor: drawing a probe
for every component of every `h^l`, a copy of each `h^l` (the model may overwrite it), the norms for
J, K and the correlation, and putting the model's state back. *Trace* (`critinit.trace`) finds the
blocks and records the whole batch once, so that each block can be run alone.
"""


def row(name: str) -> str:
    model, x = build(name)
    batch = next(read_batches(model, x))
    chain = critinit.trace(model, x)

    def find() -> None:
        with untouched(model, seed=0):
            find_chain(model, batch, None, first_tensor, whole_batch=False)

    costs = ratios(
        lambda: forward_backward(model, x),
        [
            lambda: forward_and_input_backward(model, x),
            find,
            lambda: critinit.measure(chain, x),
            lambda: critinit.measure(model, x),
            lambda: critinit.trace(model, x),
            lambda: critinit.measure(model, x, method="jvp"),
        ],
        REPEATS,
    )
    shown = [f"{cost:.2f}" for cost in costs]
    shown[3] = f"**{shown[3]}**"
    return f"| {name} | {x.shape[0]} | {' | '.join(shown)} |"


def main() -> None:
    torch.set_num_threads(1)
    rows = []
    for name in MODELS:
        rows.append(row(name))
        print(rows[-1], file=sys.stderr, flush=True)
    head = HEAD.format(torch=torch.__version__.partition("+")[0])
    PAGE.write_text(head + "\n".join(rows) + "\n" + TAIL)


if __name__ == "__main__":
    main()
