"""What can go wrong, each with what was wrong, what was given and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from critinit.profile import Profile


class CritinitError(Exception):
    """Base of every error this library raises on purpose.

    ``profile`` holds the blocks that were measured before the failure, where there are any: print
    it to see the table up to the place where the network broke.
    """

    profile: Profile | None = None


class InputError(CritinitError):
    """The inputs cannot be run: empty, not finite, on another device, or of an unknown kind."""


class ModelError(CritinitError):
    """The model itself failed, has nothing to measure, or runs differently every time."""


class NotDifferentiableError(CritinitError):
    """No derivative leads from the output back to the input."""


class NotFiniteError(CritinitError):
    """A block produced NaN or infinity, in its output or in its derivative."""


class BlockError(CritinitError):
    """A block boundary was asked for that does not exist, or that some path goes round."""
