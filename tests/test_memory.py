"""Measuring holds one block's graph at a time."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")

PROGRAM = """
import re, sys, torch, critinit
from critinit.models import mlp

def kib(field):
    return int(re.search(field + r":\\s+(\\d+) kB", open("/proc/self/status").read())[1])

torch.set_num_threads(1)
depth, method = int(sys.argv[1]), sys.argv[2]
x = torch.randn(32768, 128)
model = mlp(128, depth, inputs=128)
critinit.measure(mlp(128, 3, inputs=128), x[:2], method=method)  # load everything first
before = kib("VmRSS")
open("/proc/self/clear_refs", "w").write("5")  # forget the peak so far
critinit.measure(model, x, method=method)
print(kib("VmHWM") - before)
"""


def peak(depth: int, method: str) -> int:
    """KiB above what was in use before, of which one tensor h is 16 MiB."""
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(depth), method],
        check=True,
        capture_output=True,
        text=True,
        # give freed memory back at once, so that the peak is what is held and not the heap's luck
        env={**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"},
    )
    return int(run.stdout)


@pytest.mark.parametrize("method", ["vjp", "jvp"])
def test_peak_memory_does_not_grow_with_depth(method: str) -> None:
    shallow, deep = peak(10, method), peak(40, method)
    assert shallow > 16 * 1024
    assert deep < 1.2 * shallow
