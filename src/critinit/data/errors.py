"""What can go wrong with data: the set is unknown, missing, damaged, or of another shape."""

from __future__ import annotations

from critinit.errors import CritinitError


class DataError(CritinitError):
    """The data asked for cannot be had: an unknown source, a wrong shape, a missing package."""


class MissingDataError(DataError):
    """The data set is known but not on this machine."""


class CorruptDataError(DataError):
    """A file is not what it should be: truncated, of another format, or with a wrong checksum."""
