"""Each point in a process of its own, with a limit: what hangs or crashes costs one point.

The limit is of processor time, so that it does not matter how much else the machine has to do.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import torch

PR_SET_PDEATHSIG = 1
TOO_LONG = 97  # a status of nobody else's
GLANCE = 0.2  # seconds
ASLEEP = 10  # times the limit, for what waits and takes no processor time
Point = dict[str, Any]  # what JSON can hold
Run = Callable[[], Point]


def isolated(run: Run, limit: float) -> Point:
    """What ``run`` returns, or ``{"failed": why}``: an exception, a crash, ``limit`` seconds.

    The process is a fork, so that the packages are imported once.
    """
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_report, args=(run, sender, limit))
    process.start()
    sender.close()
    try:
        if not receiver.poll(ASLEEP * limit):
            return {"failed": f"no result within {ASLEEP * limit:.0f} s of waiting"}
        result: Point = receiver.recv()
        return result
    except EOFError:
        process.join()
        if process.exitcode == TOO_LONG:
            return {"failed": f"no result within {limit:.0f} s"}
        return {"failed": f"the process ended with status {process.exitcode}"}
    finally:
        process.kill()
        process.join()


def _report(run: Run, sender: Connection, limit: float) -> None:
    threading.Thread(target=_watch, args=(limit,), daemon=True).start()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # not to outlive a killed parent
    torch.set_num_threads(1)
    torch.manual_seed(0)
    try:
        sender.send(run())
    except Exception as error:
        sender.send({"failed": one_line(error), "where": traceback.format_exc().splitlines()[-3:]})


def _watch(limit: float) -> None:
    """End this process in time.

    A limit set with the system would do, but Linux then counts its processor time in ticks.
    """
    while time.process_time() < limit:
        time.sleep(GLANCE)
    os._exit(TOO_LONG)


def one_line(error: Exception) -> str:
    """Its type and the beginning of its message."""
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message[:157]}{'…' * (len(message) > 157)}"
