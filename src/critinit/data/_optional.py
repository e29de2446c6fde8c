"""Packages that only some sources need, imported where they are used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from critinit.data.errors import DataError


def optional(module: str, use: str) -> Any:
    """The module, or an error that says what ``use`` needs and how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise DataError(
            f"{use} needs {module.partition('.')[0]}, which cannot be imported ({error}). Run "
            "`pip install critinit[data]`."
        ) from error
