"""Packages that only some uses need, imported where they are used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from critinit.errors import CritinitError


def optional(module: str, use: str, extra: str, error: type[CritinitError] = CritinitError) -> Any:
    """The module, or an error that says what ``use`` needs and how to install it."""
    try:
        return import_module(module)
    except ImportError as cause:
        raise error(
            f"{use} needs {module.partition('.')[0]}, which cannot be imported ({cause}). Run "
            f"`pip install 'critinit[{extra}]'`."
        ) from cause
