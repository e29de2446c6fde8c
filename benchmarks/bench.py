"""``make bench``: critinit beside its peers, into ``results.json`` and ``docs/benchmarks.md``.

Resumable: every point is kept as soon as it is there. ``--only WORD`` runs the points whose name
contains it, ``--fresh`` runs them again, ``--page`` only writes the page.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import beside
import edges
from isolated import Run, isolated
from readable import page

from critinit._files import write_text

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
PAGE = HERE.parent / "docs" / "benchmarks.md"
LIMIT = 400.0  # seconds for a point, of which most need a few
PACKAGES = ("torch", "torchvision", "timm", "lsuv", "gradinit")


def points() -> dict[str, Run]:
    return beside.points() | edges.points()


def load() -> dict[str, Any]:
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {"points": {}}


def save(results: dict[str, Any]) -> None:
    write_text(RESULTS, json.dumps(results, indent=1, ensure_ascii=False) + "\n")


def versions() -> dict[str, str]:
    found = {name: version(name).partition("+")[0] for name in PACKAGES}
    return {**found, "python": platform.python_version(), "machine": platform.machine()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="points whose name contains this")
    parser.add_argument("--fresh", action="store_true", help="run them again")
    parser.add_argument("--page", action="store_true", help="only write the page")
    options = parser.parse_args()
    for key, run in {} if options.page else points().items():
        results = load()
        if options.only in key and (options.fresh or key not in results["points"]):
            start = time.monotonic()
            point = isolated(run, LIMIT)
            point["seconds"] = round(time.monotonic() - start, 1)
            results["versions"] = versions()
            results["points"][key] = rounded(point)
            save(results)
            print(key, point, file=sys.stderr, flush=True)
    PAGE.write_text(page(load()))


def rounded(value: Any) -> Any:
    """Four digits are more than these figures are worth; JSON knows no infinity."""
    if isinstance(value, float):
        return float(f"{value:.4g}") if abs(value) < float("inf") else str(value)
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list) else value


if __name__ == "__main__":
    main()
