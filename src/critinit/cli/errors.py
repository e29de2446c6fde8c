"""What was asked for on the command line cannot be done."""

from __future__ import annotations

from critinit.errors import CritinitError


class CommandError(CritinitError):
    """An argument or option is wrong: which one, and what to give instead."""


_SIGNS_OF_TOO_LARGE = (
    *("allocate memory", "out of memory"),
    *("Storage size calculation overflowed", "Overflow when unpacking long"),
)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether more was asked for than there is; torch says so in words only."""
    return isinstance(error, MemoryError) or any(w in str(error) for w in _SIGNS_OF_TOO_LARGE)
