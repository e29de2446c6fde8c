"""`load` a data set, or draw one normalized `batch` of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from critinit.data import _gaussian
from critinit.data._examples import Examples, Size
from critinit.data._pixels import as_float
from critinit.data._sources import check, examples
from critinit.data.errors import DataError

NOISE_EXAMPLES = 1024


@dataclass(frozen=True)
class Dataset:
    """One split of a data set, and how to normalize it.

    Attributes:
        source: Its name.
        images: N×C×H×W, as bytes where they are stored so, else float32; vectors are N×C.
        labels: The class of each, from 0 up, as int64; None where it is not known.
        class_names: The name of each class; empty without labels.
        mean: Of each channel over the *training* split, in float64, with bytes counted as 0…1.
        std: The standard deviation, likewise.
    """

    source: str
    images: Tensor
    labels: Tensor | None
    class_names: tuple[str, ...]
    mean: Tensor
    std: Tensor

    def __len__(self) -> int:
        return len(self.images)

    @property
    def classes(self) -> int:
        """The number of classes; 0 without labels."""
        return len(self.class_names)

    def normalized(self, index: Tensor | slice = slice(None)) -> Tensor:
        """These as float32, each channel with mean 0 and variance 1 over the training split."""
        return normalize(self.images[index], self.mean, self.std)


def load(
    source: str,
    split: str = "train",
    *,
    size: Size | None = None,
    channels: int | None = None,
    directory: str | Path | None = None,
) -> Dataset:
    """Read a data set into memory.

    ``mean`` and ``std`` are always the training split's, so that both splits are given to a network
    in the same way.

    Args:
        source: One of

            ``"gaussian"``: 1,024 examples of N(0, 1) noise, always the same;
            ``"digits"``: 1,797 handwritten digits of 8×8, inside scikit-learn; the last 297 are
            for testing;
            ``"fashion-mnist"``: Zalando's 70,000 grey pictures of 28×28;
            ``"cifar10"``: 60,000 colour pictures of 32×32, once `fetch_cifar10` has brought them;
            ``"folder:PATH"``: image files, one folder for each class, all of it for training
            unless there are ``train`` and ``test`` (or ``val``) in PATH;
            ``"FILE.npy"``: images N×C×H×W or N×H×W, or vectors N×D, for training.
        split: ``"train"`` or ``"test"``.
        size: Resize to a square of this side, or to height and width: bilinearly, smoothed where
            images shrink. The images of a folder are cut to the shape first; any other is
            stretched. All are resized at once, as float32: for much larger ones draw a `batch`.
        channels: Repeat grey, or mix colours to grey.
        directory: Where the files of ``fashion-mnist`` or the cache of ``cifar10`` are, if not in
            the usual place.

    >>> noise = load("gaussian", size=8, channels=1)
    >>> noise.images.shape, noise.classes, noise.labels
    (torch.Size([1024, 1, 8, 8]), 0, None)
    """
    check(source, split)
    if source == "gaussian":
        generator = torch.Generator().manual_seed(("train", "test").index(split))
        shape = _gaussian.example_shape(size, channels)
        images = _gaussian.noise((NOISE_EXAMPLES, *shape), generator)
        zero = torch.zeros(shape[0], dtype=torch.float64)
        return Dataset(source, images, None, (), zero, zero + 1)
    options: dict[str, Any] = {"size": size, "channels": channels, "directory": directory}
    found = examples(source, split, **options)
    mean, std = _training_statistics(found, source, split, **options)
    return Dataset(source, found.images(), found.labels, found.class_names, mean, std)


def batch(
    source: str,
    batch: int,
    size: Size | None = None,
    channels: int | None = None,
    *,
    split: str = "train",
    generator: torch.Generator | None = None,
    directory: str | Path | None = None,
) -> Tensor:
    """Draw a normalized batch, to measure or tune a network on: float32, batch × C × H × W.

    *Normalized inputs* are those whose channels each have mean 0 and variance 1 over all pixels of
    the whole training set, in the size the network sees. Then ``K^0(x, x)``, the mean square of an
    input, is 1 on average over the training set, which is where the recursions for K start. A
    single image keeps its own brightness and contrast, and a batch its own mean: were they
    normalized as well, every example would depend on the others. Noise is N(0, 1) as it is drawn.

    Resizing smooths: 8×8 digits that are enlarged have less variance than before. So they are
    normalized after it, by the statistics of the resized training set. These are exact; of a folder
    with more than 512 images they are those of 512, evenly spaced.

    Args:
        source: See `load`. Noise is drawn afresh, as many examples as asked for.
        batch: How many examples, drawn without replacement.
        size: As for `load`; noise takes the whole shape of an example, too: ``(784,)``.
        channels: As for `load`.
        split: ``"train"`` or ``"test"``; either is normalized by the training split.
        generator: The only source of randomness; by default a fresh one with seed 0.
        directory: As for `load`.

    >>> batch("gaussian", 4, size=32).shape, batch("gaussian", 4, size=(784,)).shape
    (torch.Size([4, 3, 32, 32]), torch.Size([4, 784]))
    """
    check(source, split)
    if batch < 1:
        raise DataError(f"batch={batch}: draw one example or more.")
    generator = generator or torch.Generator().manual_seed(0)
    if source == "gaussian":
        return _gaussian.noise((batch, *_gaussian.example_shape(size, channels)), generator)
    options: dict[str, Any] = {"size": size, "channels": channels, "directory": directory}
    found = examples(source, split, **options)
    if batch > len(found):
        raise DataError(f"{source} has {len(found)} examples to draw from, fewer than {batch}.")
    mean, std = _training_statistics(found, source, split, **options)
    index = torch.randperm(len(found), generator=generator, device=generator.device)[:batch]
    return normalize(found.images(index.cpu()), mean, std)


def _training_statistics(
    found: Examples, source: str, split: str, **options: Any
) -> tuple[Tensor, Tensor]:
    """Those of ``found`` if it is the training split, else of the split beside it."""
    training = found if split == "train" else examples(source, "train", **options)
    return training.statistics()


def normalize(images: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """``(x − mean) / std`` in each channel, with bytes counted as 0…1.

    >>> normalize(torch.ones(1, 1, 1, 2), torch.tensor([0.5]), torch.tensor([0.25]))
    tensor([[[[2., 2.]]]])
    """
    shape = (-1, *[1] * (images.ndim - 2))
    return (as_float(images) - mean.float().view(shape)) / std.float().view(shape)
