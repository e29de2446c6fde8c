"""Measuring and sweeping hold one block's graph at a time."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")

PROGRAM = """
import re, sys, torch, critinit
from critinit.models import ln_mlp, mlp

def kib(field):
    return int(re.search(field + r":\\s+(\\d+) kB", open("/proc/self/status").read())[1])

torch.set_num_threads(1)
depth, what = int(sys.argv[1]), sys.argv[2]
if what == "sweep":
    make, run = ln_mlp, lambda model, x: critinit.tune_(model, x)
    x = torch.randn(4096, 128)
else:
    make, run = mlp, lambda model, x: critinit.measure(model, x, method=what)
    x = torch.randn(32768, 128)
model = make(128, depth, inputs=128, sigma_w=1.0, sigma_b=0.1)
run(make(128, 3, inputs=128, sigma_w=1.0, sigma_b=0.1), x[:2])  # load everything first
before = kib("VmRSS")
open("/proc/self/clear_refs", "w").write("5")  # forget the peak so far
run(model, x)
print(kib("VmHWM") - before)
"""


def peak(depth: int, what: str) -> int:
    """KiB above what was in use before, of which one tensor h is 2 MiB or more."""
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(depth), what],
        check=True,
        capture_output=True,
        text=True,
        # give freed memory back at once, so that the peak is what is held and not the heap's luck
        env={**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"},
    )
    return int(run.stdout)


@pytest.mark.parametrize("what", ["vjp", "jvp", "sweep"])
def test_peak_memory_does_not_grow_with_depth(what: str) -> None:
    shallow, deep = peak(8, what), peak(32, what)
    assert shallow > 2 * 1024
    assert deep < 1.2 * shallow
