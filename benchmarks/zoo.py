"""Measure and tune the smallest model of every timm module and write ``docs/zoo.md``.

Resumable: finished rows are kept in ``benchmarks/zoo.json``; ``--fresh`` starts again,
``--choose`` looks for the smallest models again.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import timm
import torch
from cost import forward_backward, seconds
from timm.models._registry import _module_to_models
from torch import Tensor, nn

import critinit

HERE = Path(__file__).parent
CHOICE = HERE / "zoo_models.json"
ROWS = HERE / "zoo.json"
PAGE = HERE.parent / "docs" / "zoo.md"
BATCH = 2
PATIENCE = 15.0  # seconds of a forward and backward pass, beyond which tuning is left out


def choose() -> dict[str, str]:
    """The model with the fewest parameters of each of timm's model modules."""
    smallest = {}
    for family, names in sorted(_module_to_models.items()):
        sizes = {}
        for name in names:
            try:
                with torch.device("meta"):
                    sizes[name] = sum(p.numel() for p in timm.create_model(name).parameters())
            except (RuntimeError, NotImplementedError):  # cannot be built on the meta device
                continue
        smallest[family] = min(sorted(sizes), key=lambda name: sizes[name])
    return smallest


def measured(name: str) -> dict[str, Any]:
    torch.manual_seed(0)
    model = timm.create_model(name).train()
    shape = (BATCH, *model.default_cfg["input_size"])
    x = torch.randn(shape)
    row: dict[str, Any] = {
        "model": name,
        "parameters": sum(p.numel() for p in model.parameters()),
        "input": "×".join(map(str, shape)),
    }
    base = seconds(lambda: forward_backward(model, x), repeats=1)
    start = time.process_time()
    try:
        profile = critinit.measure(model, x)
    except critinit.CritinitError as error:
        return {**row, "error": f"{type(error).__name__}: {error}"}
    row["ratio"] = (time.process_time() - start) / base
    hidden = profile.apjn[profile.is_hidden]
    row |= {
        "blocks": len(profile),
        "j_min": float(hidden.min()),
        "j_max": float(hidden.max()),
        "critical": profile.is_critical(),
    }
    if base > PATIENCE:
        return {**row, "tune_error": f"not tuned: one forward and backward takes {base:.0f} s"}
    return {**row, **tuned(model, x, base)}


def tuned(model: nn.Module, x: Tensor, base: float) -> dict[str, Any]:
    """What `critinit.tune_` does to it, and at what cost. The model is used up."""
    chain = critinit.trace(model, x)
    movable = torch.tensor([any(bool(p.any()) for p in b.parameters.values()) for b in chain])
    start = time.process_time()
    try:
        result = critinit.tune_(model, x)
    except Exception as error:  # a row of its own, not the end of a long run
        return {"tune_error": f"{type(error).__name__}: {error}"}
    seconds = time.process_time() - start
    counted = movable & result.before.is_hidden & (result.before.apjn > 0)
    before, after = (float(p.log_apjn[counted].abs().max()) for p in (result.before, result.after))
    return {"before": before, "after": after, "tune_ratio": seconds / base}


def middle(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def page(rows: dict[str, dict[str, Any]]) -> str:
    done = [r for r in rows.values() if "error" not in r]
    after = [r for r in done if "tune_error" not in r]
    improved = sum(r["after"] < r["before"] for r in after)
    lines = [
        "# The zoo: the smallest model of every timm family",
        "",
        f"`make zoo` measured {len(done)} of {len(rows)} families (timm {timm.__version__}, torch "
        f"{torch.__version__.partition('+')[0]}, training mode, Gaussian input, batch of {BATCH}, "
        "one probe). No code is specific to any architecture. *Cost* is tracing and measuring, in "
        "units of one forward and backward pass on the same batch (one run each, one thread): "
        f"median {middle([r['ratio'] for r in done]):.2f}. *J* is the range over all blocks but "
        "the input block.",
        "",
        f"{len(after)} were then tuned by `critinit.tune_(model, batch)` as it is (`JKL(0.05)`, "
        "the sweep). *Before* and *after* is the largest |log J| of the blocks that multipliers "
        "can move: without the input block, blocks without parameters (pools), and blocks that "
        "pass no gradient (behind a head of zeros). *Tuning* is its whole cost, measuring before "
        "and after included: median "
        f"{middle([r['tune_ratio'] for r in after]):.1f}. The largest |log J| fell in {improved} "
        "of them; where J and K conflict, the loss weighs one against the other.",
        "",
        "| family | model | parameters | input | blocks | J | cost | before | after | tuning |",
        "|---|---|---:|---|---:|---|---:|---:|---:|---:|",
    ]
    for family, r in sorted(rows.items()):
        head = f"| {family} | {r['model']} | {r['parameters'] / 1e6:.1f} M | {r['input']} |"
        if "error" in r:
            lines.append(f"{head} | {r['error']} | | | | |")
        else:
            span = f"{r['j_min']:.3g} … {r['j_max']:.3g}"
            line = f"{head} {r['blocks']} | {span} | {r['ratio']:.2f} |"
            if "tune_error" in r:
                lines.append(f"{line} | {r['tune_error']} | |")
            else:
                numbers = f"{r['before']:.2g} | {r['after']:.2g} | {r['tune_ratio']:.1f}"
                lines.append(f"{line} {numbers} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*", help="only these")
    parser.add_argument("--fresh", action="store_true", help="forget finished rows")
    parser.add_argument("--choose", action="store_true", help="look for the smallest models again")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if options.choose:
        CHOICE.write_text(json.dumps(choose(), indent=1) + "\n")
    choice = json.loads(CHOICE.read_text())
    rows = json.loads(ROWS.read_text()) if ROWS.exists() and not options.fresh else {}
    for family, name in choice.items():
        if (options.families and family not in options.families) or (
            family in rows and not options.families
        ):
            continue
        rows[family] = measured(name)
        print(family, rows[family], file=sys.stderr, flush=True)
        ROWS.write_text(json.dumps(rows, indent=1) + "\n")
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(rows))


if __name__ == "__main__":
    main()
