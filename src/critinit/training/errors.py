"""What can go wrong in a training."""

from __future__ import annotations

from critinit.errors import CritinitError


class TrainingError(CritinitError):
    """A recipe, setting, run directory or checkpoint that cannot be used."""


class DivergedError(CritinitError):
    """The loss is not finite; says where the network broke."""
