"""Measure the smallest model of every timm module and write ``docs/zoo.md``.

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

import critinit

HERE = Path(__file__).parent
CHOICE = HERE / "zoo_models.json"
ROWS = HERE / "zoo.json"
PAGE = HERE.parent / "docs" / "zoo.md"
BATCH = 2


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


def measure(name: str) -> dict[str, Any]:
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
    return row


def page(rows: dict[str, dict[str, Any]]) -> str:
    done = [r for r in rows.values() if "error" not in r]
    ratios = sorted(r["ratio"] for r in done)
    lines = [
        "# The zoo: the smallest model of every timm family",
        "",
        f"`make zoo` measured {len(done)} of {len(rows)} families (timm {timm.__version__}, torch "
        f"{torch.__version__.partition('+')[0]}, training mode, Gaussian input, batch of {BATCH}, "
        "one probe). No code is specific to any architecture. *Cost* is tracing and measuring, in "
        "units of one forward and backward pass on the same batch (one run each, one thread): "
        f"median {ratios[len(ratios) // 2]:.2f}. *J* is the range over all blocks but the input "
        "block.",
        "",
        "| family | model | parameters | input | blocks | J | cost |",
        "|---|---|---:|---|---:|---|---:|",
    ]
    for family, r in sorted(rows.items()):
        head = f"| {family} | {r['model']} | {r['parameters'] / 1e6:.1f} M | {r['input']} |"
        if "error" in r:
            lines.append(f"{head} | {r['error']} | |")
        else:
            span = f"{r['j_min']:.3g} … {r['j_max']:.3g}"
            lines.append(f"{head} {r['blocks']} | {span} | {r['ratio']:.2f} |")
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
        rows[family] = measure(name)
        print(family, rows[family], file=sys.stderr, flush=True)
        ROWS.write_text(json.dumps(rows, indent=1) + "\n")
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(rows))


if __name__ == "__main__":
    main()
