"""What every source gives: so many examples, picked by number, and how to normalize them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from critinit.data._pixels import Resize, as_float, statistics, with_channels
from critinit.data.errors import DataError

Size = int | tuple[int, ...]


class Examples(Protocol):
    """One split of a data set."""

    @property
    def labels(self) -> Tensor | None:
        """The class of every example, from 0 up, where it is known."""

    @property
    def class_names(self) -> tuple[str, ...]:
        """The name of every class, in the order of the labels."""

    def __len__(self) -> int: ...

    def images(self, index: Tensor | None = None) -> Tensor:
        """The examples of these numbers, or all: bytes, or floats, with channels second."""

    def statistics(self) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of each channel over the set."""


@dataclass(frozen=True)
class InMemory:
    """Examples that are all in one tensor, and are resized when they are picked."""

    raw: Tensor
    labels: Tensor | None = None
    class_names: tuple[str, ...] = ()
    size: Size | None = None
    channels: int | None = None

    def __len__(self) -> int:
        return len(self.raw)

    def images(self, index: Tensor | None = None) -> Tensor:
        """The examples of these numbers, or all; as they are unless another size is asked for."""
        picked = self.raw if index is None else self.raw[index]
        resize = self._resize()
        if self.channels not in (None, picked.shape[1]):
            picked = with_channels(as_float(picked), self.channels)
        return picked if resize is None else resize(as_float(picked))

    def statistics(self) -> tuple[Tensor, Tensor]:
        """Exact, over all examples, in the size asked for."""
        return statistics(self.raw, self._resize(), self.channels)

    def _resize(self) -> Resize | None:
        if self.raw.ndim == 2 and (self.size is not None or self.channels is not None):
            raise DataError(
                f"Each example is a vector of {self.raw.shape[1]} numbers, not an image: it has no "
                "size or channels to change. Leave size and channels out."
            )
        if self.size is None:
            return None
        old, new = (self.raw.shape[2], self.raw.shape[3]), height_width(self.size)
        return None if old == new else Resize.between(old, new)


def height_width(size: Size) -> tuple[int, int]:
    """One number is a square's side.

    >>> height_width(32), height_width((24, 32))
    ((32, 32), (24, 32))
    """
    pair = (size, size) if isinstance(size, int) else tuple(size)
    if len(pair) != 2 or min(pair) < 1:
        raise DataError(f"size={size}: give the side of a square, or a height and a width.")
    return pair


def evenly(total: int, most: int) -> Tensor:
    """At most ``most`` numbers, evenly spaced from the first to the last of ``total``.

    >>> evenly(9, 3), evenly(2, 3)
    (tensor([0, 4, 8]), tensor([0, 1]))
    """
    return torch.linspace(0, total - 1, min(total, most), dtype=torch.float64).round().long()
