"""``make bench``: critinit beside its peers, into ``results.json`` and ``docs/benchmarks.md``.

Resumable: every point is kept as soon as it is there. ``--only WORD`` runs the points whose name
contains it, ``--fresh`` runs them again, ``--page`` only writes the page.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import beside
import edges
import guard
import scaling
import where
from isolated import Run, isolated
from readable import page
from results import keep, load

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
LIMIT = 400.0  # seconds for a point, of which most need a few


def points() -> dict[str, Run]:
    """The quick ones first."""
    found: dict[str, Run] = {}
    for section in (guard, where, scaling, edges, beside):
        found |= section.points()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="points whose name contains this")
    parser.add_argument("--fresh", action="store_true", help="run them again")
    parser.add_argument("--page", action="store_true", help="only write the page")
    options = parser.parse_args()
    known = points()
    for key, run in {} if options.page else known.items():
        if options.only in key and (options.fresh or key not in load()["points"]):
            start = time.monotonic()
            point = isolated(run, LIMIT)
            keep(key, {**point, "seconds": time.monotonic() - start}, list(known))
            print(key, point, file=sys.stderr, flush=True)
    PAGE.write_text(page(load()))


if __name__ == "__main__":
    main()
