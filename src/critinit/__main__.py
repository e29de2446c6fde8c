"""``python -m critinit``, and the program ``critinit``."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line, which takes Ctrl-C in hand once it is imported."""
    try:
        from critinit.cli import main as run

        run()
    except KeyboardInterrupt:
        with suppress(OSError):  # the standard error may be closed
            os.write(2, b"critinit: interrupted\n")
        os._exit(130)


if __name__ == "__main__":
    main()
