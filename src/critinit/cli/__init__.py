"""``critinit`` in a terminal."""

from critinit.cli._main import main

__all__ = ["main"]
