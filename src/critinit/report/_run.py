"""What was run, and how to run it again."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

_PACKAGES = ("critinit", "torch", "numpy", "timm", "torchvision", "transformers")


def versions() -> dict[str, str]:
    """Of Python, and of the packages at work that have to do with the result.

    >>> {"python", "torch"} <= versions().keys()
    True
    """
    found = {"python": platform.python_version(), "platform": platform.platform(terse=True)}
    for package in _PACKAGES:
        if package in sys.modules:
            try:
                found[package] = version(package)
            except PackageNotFoundError:
                continue  # on the path, but not installed
    return found


def now() -> str:
    """To the second, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True)
class Run:
    """What cannot be read off a result.

    Attributes:
        command: The command line that repeats it.
        code: Or the Python that does.
        model: How the model was asked for.
        data: Where the inputs came from.
        seed: Of everything random.
        loss: What was minimised.
        solver: How.
        options: Anything else that was chosen.
        versions: Of the packages; those at work now by default.
        created: When; now by default.
    """

    command: str | None = None
    code: str | None = None
    model: str | None = None
    data: str | None = None
    seed: int | None = None
    loss: str | None = None
    solver: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=versions)
    created: str = field(default_factory=now)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings, ready for JSON."""
        plain = (str, int, float, bool, type(None))
        options = {k: v if isinstance(v, plain) else str(v) for k, v in self.options.items()}
        own = {f.name: getattr(self, f.name) for f in fields(self)}
        return {**own, "options": options, "versions": dict(self.versions)}
