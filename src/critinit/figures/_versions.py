"""What computed a point."""

from __future__ import annotations

from importlib.metadata import version

COLUMNS = ("seconds", "critinit", "torch")


def versions() -> dict[str, str]:
    """The versions that a number depends on."""
    return {name: version(name) for name in COLUMNS[1:]}
