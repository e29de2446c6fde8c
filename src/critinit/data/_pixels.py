"""Images as numbers: pixels to floats, channels, sizes, and the statistics that normalize them.

Resizing is linear and separable, ``y = A x Bᵀ``, so the statistics of a resized data set follow
from one pass over the images as they are, however large they become:

* the sum of all pixels is ``(1ᵀA) x (Bᵀ1)``;
* the sum of their squares is ``tr(AᵀA x BᵀB xᵀ) = ⟨AᵀA x, x BᵀB⟩``.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from critinit.data.errors import DataError

_CHUNK = 2**19  # values at a time: what the processor's cache holds
_LUMA = (0.299, 0.587, 0.114)  # how bright red, green and blue look (ITU-R BT.601)


def as_float(images: Tensor) -> Tensor:
    """Bytes as numbers in [0, 1]; floats as they are."""
    return images.float().div_(255) if images.dtype == torch.uint8 else images.float()


def with_channels(images: Tensor, channels: int | None) -> Tensor:
    """Grey repeated to any number of channels, colour mixed down to grey.

    >>> grey, colour = torch.ones(2, 1, 4, 4), torch.ones(2, 3, 4, 4)
    >>> with_channels(grey, 3).shape, with_channels(colour, 1).shape
    (torch.Size([2, 3, 4, 4]), torch.Size([2, 1, 4, 4]))
    """
    found = images.shape[1]
    if channels is None or channels == found:
        return images
    if found == 1 and channels > 1:
        return images.expand(-1, channels, *images.shape[2:])
    if found == 3 and channels == 1:
        weights = torch.tensor(_LUMA, dtype=images.dtype).view(3, 1, 1)
        return (images * weights).sum(1, keepdim=True)
    raise DataError(
        f"Images of {found} channels cannot be given as {channels}: only grey can be repeated, and "
        "three channels be mixed to one."
    )


@dataclass(frozen=True)
class Resize:
    """Bilinear interpolation of an image to ``A x Bᵀ``, smoothed where it shrinks.

    Attributes:
        rows: ``A``, new height × height.
        columns: ``B``, new width × width.
    """

    rows: Tensor
    columns: Tensor

    @classmethod
    def between(cls, old: tuple[int, int], new: tuple[int, int]) -> Resize:
        """From one (height, width) to another."""
        rows, columns = (_interpolation(*pair) for pair in zip(old, new, strict=True))
        return cls(rows, columns)

    def __call__(self, images: Tensor) -> Tensor:
        """Resize images … × height × width."""
        return self.rows @ images @ self.columns.T


def _interpolation(old: int, new: int) -> Tensor:
    """The matrix new × old of what each new pixel takes from the old ones.

    A triangle around the new pixel's place, as wide as the distance between pixels, old or new,
    whichever is the larger; at the edges what lies inside counts for the whole.
    """
    spacing = old / new
    places = (torch.arange(new, dtype=torch.float64) + 0.5) * spacing
    distances = (torch.arange(old, dtype=torch.float64) + 0.5 - places.unsqueeze(1)).abs()
    weights = (1 - distances / max(1.0, spacing)).clamp(min=0)
    return (weights / weights.sum(1, keepdim=True)).float()


def statistics(
    images: Tensor, resize: Resize | None = None, channels: int | None = None
) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each channel over all images and pixels, in float64.

    They are those of the images in ``channels`` channels and resized, which are never all built. A
    channel that is the same everywhere gets a standard deviation of one: it is only centred.

    >>> mean, std = statistics(torch.tensor([[0, 255]], dtype=torch.uint8).view(1, 1, 1, 2))
    >>> mean, std
    (tensor([0.5000], dtype=torch.float64), tensor([0.5000], dtype=torch.float64))
    """
    pivot = with_channels(as_float(images[:1]), channels)
    pivot = pivot.mean([d for d in range(pivot.ndim) if d != 1], keepdim=True)
    total = squares = torch.zeros(pivot.numel(), dtype=torch.float64)
    for chunk in images.split(max(1, _CHUNK // images[0].numel())):
        x = with_channels(as_float(chunk), channels) - pivot
        one, two = _sums(x, resize)
        total, squares = total + one, squares + two
    pixels = images[0, 0].numel()
    if resize is not None:
        pixels = len(resize.rows) * len(resize.columns)
    shift = total / (len(images) * pixels)
    std = (squares / (len(images) * pixels) - shift.square()).clamp(min=0).sqrt()
    constant = std <= 1e-6 * (1 + pivot.flatten().abs())
    return pivot.flatten().double() + shift, torch.where(constant, 1.0, std)


def _sums(x: Tensor, resize: Resize | None) -> tuple[Tensor, Tensor]:
    """The sums, by channel, of resized ``x`` and of its squares.

    Each image is summed in float32, and the images in float64: so they are right however many.
    """
    if resize is None:
        x = x.flatten(2) if x.ndim > 2 else x.unsqueeze(2)
        total, squares = x.sum(2), torch.linalg.vector_norm(x, dim=2).double().square()
    else:
        rows, columns = resize.rows, resize.columns
        total = rows.sum(0) @ x @ columns.sum(0)
        squares = (rows.T @ rows @ x).mul_(x @ (columns.T @ columns)).sum((2, 3))
    return total.double().sum(0), squares.double().sum(0)
