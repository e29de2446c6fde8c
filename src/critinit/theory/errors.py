"""What can go wrong in a prediction."""

from __future__ import annotations

from critinit.errors import CritinitError


class TheoryError(CritinitError):
    """A prediction was asked for numbers it does not exist for, such as a negative variance."""


class ActivationError(TheoryError):
    """The activation is unknown, or is not a finite real function applied element by element."""


class DivergenceError(TheoryError):
    """K left the range of floating-point numbers."""
