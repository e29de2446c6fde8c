"""What was asked for on the command line cannot be done."""

from __future__ import annotations

from critinit.errors import CritinitError


class CommandError(CritinitError):
    """An argument or option is wrong: which one, and what to give instead."""
