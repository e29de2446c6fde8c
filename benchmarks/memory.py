"""Peak memory of a call, in a process that does nothing else. Linux only."""

from __future__ import annotations

import ctypes
import gc
import re
from collections.abc import Callable
from pathlib import Path

STATUS = Path("/proc/self/status")
M_MMAP_THRESHOLD, M_TRIM_THRESHOLD = -3, -1


def peak(run: Callable[[], object], warm_up: Callable[[], object]) -> float:
    """MiB above what was in use before, after a small run that loads what has to be loaded.

    Freed memory goes back to the system at once, so that the peak is what is held.
    """
    libc = ctypes.CDLL(None)
    libc.mallopt(M_MMAP_THRESHOLD, 1 << 16)
    libc.mallopt(M_TRIM_THRESHOLD, 1 << 16)
    warm_up()
    gc.collect()
    libc.malloc_trim(0)
    before = _kib("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    run()
    return (_kib("VmHWM") - before) / 1024


def _kib(field: str) -> int:
    found = re.search(rf"{field}:\s+(\d+) kB", STATUS.read_text())
    assert found
    return int(found[1])
