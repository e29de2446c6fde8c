"""What every source of networks can do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import nn


@dataclass(frozen=True)
class Example:
    """What a network takes.

    Attributes:
        shape: Of one example: (channels, height, width), (features,) or, of a text, (length,).
        vocabulary: How many tokens there are, where it reads a text.
        argument: What the input is called, where the network wants to be told.
        also: Other arguments that take the same.
    """

    shape: tuple[int, ...]
    vocabulary: int | None = None
    argument: str | None = None
    also: tuple[str, ...] = ()


class Source(Protocol):
    """One network, not built yet.

    Attributes:
        adapts: Whether it is built to fit the data, rather than the data made to fit it.
    """

    adapts: bool

    def example(self) -> Example | None:
        """What it takes unless it is told otherwise; None if only its author knows."""

    def build(self, shape: Sequence[int]) -> nn.Module:
        """The network, freshly drawn, for examples of this shape."""


class Family(Source, Protocol):
    """A source whose networks have names: ``FAMILY:NAME``."""

    def __init__(self, name: str, settings: Mapping[str, str]) -> None: ...

    @staticmethod
    def names() -> list[str]:
        """All there are."""
        ...
