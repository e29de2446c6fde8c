"""Run what the plan still lacks; every finished training is kept, so stop it whenever you like."""

from __future__ import annotations

import argparse
import sys
import time

import table
import torch
import trial
from plan import EXPERIMENTS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="*", help="experiments of these names")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin none after so long")
    options = parser.parse_args()
    torch.set_num_threads(1)
    end = time.monotonic() + 60 * options.minutes
    for experiment in EXPERIMENTS:
        if options.only and experiment.name not in options.only:
            continue
        for planned in experiment.trials():
            if planned in table.done():  # perhaps by another process, since
                continue
            if time.monotonic() > end:
                sys.exit(3)  # there is more to do
            row = trial.run(planned)
            table.append(row)
            print(*row.values(), file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
