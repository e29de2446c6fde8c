"""Resizing and statistics against the slow and obvious way."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from critinit.data import DataError, normalize
from critinit.data._pixels import Resize, as_float, statistics, with_channels

SIZES = [
    ((8, 8), (32, 20)),
    ((32, 24), (7, 50)),
    ((5, 9), (3, 2)),
    ((6, 6), (6, 6)),
    ((9, 4), (1, 4)),
]


def pictures(channels: int, height: int, width: int, dtype: torch.dtype) -> Tensor:
    """Bright above, dark below, so that a wrong weight at an edge shows."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(50, channels, height, width, generator=generator)
    x = 0.5 * x + torch.linspace(0, 0.5, height).view(-1, 1) * torch.rand(channels, 1, 1)
    return (255 * x).byte() if dtype == torch.uint8 else x


@pytest.mark.parametrize(("old", "new"), SIZES)
def test_resizing_is_torch_s_own(old: tuple[int, int], new: tuple[int, int]) -> None:
    x = pictures(3, *old, torch.float32)
    expected = F.interpolate(x, new, mode="bilinear", antialias=True)
    torch.testing.assert_close(Resize.between(old, new)(x), expected, rtol=0, atol=1e-5)


def test_one_column_is_resized_like_any_other() -> None:
    """Torch 2.14's own, smoothed, is wrong there; so it is asked for five equal columns."""
    column = pictures(1, 8, 1, torch.float32)
    wide = column.expand(-1, -1, -1, 5)
    found = Resize.between((8, 1), (20, 1))(column).expand(-1, -1, -1, 5)
    torch.testing.assert_close(found, F.interpolate(wide, (20, 5), mode="bilinear", antialias=True))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("channels", [None, 1])
@pytest.mark.parametrize(("old", "new"), [*SIZES, ((8, 6), None)])
def test_statistics_are_those_of_the_images_all_built(
    old: tuple[int, int], new: tuple[int, int] | None, channels: int | None, dtype: torch.dtype
) -> None:
    x = pictures(3, *old, dtype)
    resize = Resize.between(old, new) if new else None
    built = with_channels(as_float(x), channels)
    built = (resize(built) if resize else built).double()
    mean, std = statistics(x, resize, channels)
    torch.testing.assert_close(mean, built.mean((0, 2, 3)), rtol=1e-6, atol=0)
    torch.testing.assert_close(std, built.std((0, 2, 3), correction=0), rtol=1e-5, atol=0)
    again = normalize(built.float(), mean, std)
    torch.testing.assert_close(again.mean((0, 2, 3)), torch.zeros(len(mean)), rtol=0, atol=1e-5)
    torch.testing.assert_close(again.square().mean((0, 2, 3)), torch.ones(len(mean)))


def test_statistics_are_right_in_several_chunks_and_far_from_zero(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = 1000 + pictures(2, 5, 5, torch.float32)
    whole = statistics(x)
    monkeypatch.setattr("critinit.data._pixels._CHUNK", 7 * 50)
    for found, expected in zip(statistics(x), whole, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=0)
    torch.testing.assert_close(whole[1], x.double().std((0, 2, 3), correction=0), rtol=1e-5, atol=0)


def test_vectors_are_normalized_number_by_number() -> None:
    x = torch.tensor([[0.0, 5.0], [2.0, 5.0]])
    mean, std = statistics(x)
    assert mean.tolist() == [1, 5]
    assert std.tolist() == [1, 1], "what is constant is only centred"
    assert normalize(x, mean, std).tolist() == [[-1, 0], [1, 0]]


@pytest.mark.parametrize("value", [0.1, 1000.3])
def test_a_constant_channel_is_only_centred(value: float) -> None:
    x = torch.full((40, 1, 9, 9), value)
    mean, std = statistics(x, Resize.between((9, 9), (20, 20)))
    assert std.tolist() == [1]
    assert float(normalize(x, mean, std).abs().max()) < 1e-3


def test_channels() -> None:
    colour = torch.tensor([1.0, 2.0, 4.0]).view(1, 3, 1, 1)
    assert float(with_channels(colour, 1)) == pytest.approx(0.299 + 2 * 0.587 + 4 * 0.114)
    assert with_channels(colour[:, :1], 5).flatten().tolist() == [1] * 5
    assert with_channels(colour, 3) is colour
    for images, channels in [(colour, 2), (colour[:, :2], 1), (colour, 4), (colour[:, :1], 0)]:
        with pytest.raises(DataError, match=f"be given as {channels}"):
            with_channels(images, channels)
