"""What can go wrong with a figure."""

from __future__ import annotations

from critinit.errors import CritinitError


class FigureError(CritinitError):
    """A figure cannot be computed or drawn as it was asked for."""
