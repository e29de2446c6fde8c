"""``python -m critinit``, and the program ``critinit``."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from types import FrameType
from typing import NoReturn

_SHOW_CURSOR = b"\x1b[?25h"


def main() -> NoReturn:
    """Run the command line, which takes Ctrl-C in hand once it is imported."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _on_ctrl_c)
    try:
        from critinit.cli import main as run

        run()
    except KeyboardInterrupt:
        _end()


def _on_ctrl_c(_: int, frame: FrameType | None) -> NoReturn:
    """Raise KeyboardInterrupt, but not within an import: packages in C swallow it, or abort."""
    if any(each.f_code.co_filename.startswith("<frozen importlib") for each in _stack(frame)):
        _end()
    raise KeyboardInterrupt


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _end() -> NoReturn:
    shown = _SHOW_CURSOR if os.isatty(2) else b""
    with suppress(OSError):  # the standard error may be closed
        os.write(2, shown + b"critinit: interrupted\n")
    os._exit(130)


if __name__ == "__main__":
    main()
