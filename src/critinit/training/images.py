"""The images of a recipe, augmented by timm for training, as they are for testing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from critinit import data
from critinit._state import random_state
from critinit.training._packages import package
from critinit.training.errors import TrainingError
from critinit.training.order import Item, Order, seed_of
from critinit.training.recipe import Recipe

_FOLDER = "folder:"
_TEST_BATCH = 256


class Source(Protocol):
    """One split: pictures and their classes by number."""

    classes: int

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> tuple[Any, int]: ...


class InMemory:
    """A data set of `critinit.data`, as pictures that timm can augment."""

    def __init__(self, loaded: data.Dataset, examples: int = 0) -> None:
        self.images = loaded.images[: examples or None]
        assert loaded.labels is not None
        self.labels = loaded.labels.tolist()
        self.classes = loaded.classes
        self.pillow = package("PIL.Image")

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        pixels = self.images[index].permute(1, 2, 0).numpy()
        return self.pillow.fromarray(pixels), self.labels[index]


class Folder:
    """A tree of images, read by timm: one folder for each class."""

    def __init__(self, root: Path, split: str, examples: int = 0) -> None:
        try:
            self.reader = package("timm.data").create_dataset("", str(root), split=split).reader
        except (OSError, RuntimeError, AssertionError) as error:
            raise TrainingError(
                f"{root} holds no images to train on ({error}). It needs the folders train and "
                "val, and in each a folder of images for every class."
            ) from error
        self.examples = min(examples or len(self.reader), len(self.reader))
        self.classes = len(self.reader.class_to_idx)
        self.pillow = package("PIL.Image")

    def __len__(self) -> int:
        return self.examples

    def __getitem__(self, index: int) -> tuple[Any, int]:
        file, label = self.reader[index]
        with file:
            return self.pillow.open(file).convert("RGB"), int(label)


@dataclass(frozen=True)
class Images:
    """Both splits of a recipe's data, and how to normalize them."""

    train: Source
    test: Source
    mean: tuple[float, ...]
    std: tuple[float, ...]


def read(recipe: Recipe, directory: str | Path | None = None) -> Images:
    """Find a recipe's data.

    Args:
        recipe: What is trained on.
        directory: Where CIFAR-10 is, if not in the usual place; see `critinit.data.load`.
    """
    if recipe.data.startswith(_FOLDER):
        root = Path(recipe.data.removeprefix(_FOLDER)).expanduser()
        if not root.is_dir():
            raise data.MissingDataError(
                f"There is no folder {root}: set data=folder:PATH to one with train and val in it."
            )
        train, test = Folder(root, "train", recipe.examples), Folder(root, "validation")
        timm = package("timm.data")
        return Images(train, test, timm.IMAGENET_DEFAULT_MEAN, timm.IMAGENET_DEFAULT_STD)
    both = [
        data.load(recipe.data, split, size=recipe.image, directory=directory)
        for split in ("train", "test")
    ]
    if both[0].labels is None or both[0].images.dtype != torch.uint8:
        raise TrainingError(
            f"data={recipe.data}: that has no pictures with labels of {recipe.image} pixels. Use "
            "cifar10 or folder:PATH."
        )
    mean, std = (tuple(v.tolist()) for v in (both[0].mean, both[0].std))
    return Images(InMemory(both[0], recipe.examples), InMemory(both[1]), mean, std)


def training_batches(
    images: Images,
    recipe: Recipe,
    order: Order,
    epoch: int,
    start: int,
    rank: int,
    processes: int,
    workers: int,
) -> DataLoader[Any]:
    """Augmented images and labels of one process, from a step of an epoch on."""
    batches = list(order.batches(epoch, start, rank, processes))
    dataset = _Augmented(images.train, _training_transform(images, recipe))
    return DataLoader(dataset, batch_sampler=batches, num_workers=workers)


def test_batches(
    images: Images, recipe: Recipe, rank: int, processes: int, workers: int
) -> DataLoader[Any]:
    """One process's part of the test images, in order."""
    items = [(i, 0) for i in range(rank, len(images.test), processes)]
    batches = [items[i : i + _TEST_BATCH] for i in range(0, len(items), _TEST_BATCH)]
    dataset = _Augmented(images.test, _plain_transform(images, recipe))
    return DataLoader(dataset, batch_sampler=batches, num_workers=workers)


class TuningBatches:
    """Batches of training images without augmentation, to tune on; can be gone through again."""

    def __init__(self, images: Images, recipe: Recipe, batch: int, steps: int, seed: int) -> None:
        self.dataset = _Augmented(images.train, _plain_transform(images, recipe))
        self.batch = min(batch, len(images.train))
        self.steps = steps
        self.seed = seed

    def __iter__(self) -> Iterator[Tensor]:
        order = Order(len(self.dataset), self.batch, 1, self.seed)
        epochs, rest = divmod(self.steps, len(order))
        for epoch in range(epochs + (rest > 0)):
            wanted = len(order) if epoch < epochs else rest
            for _, items in zip(range(wanted), order.batches(epoch), strict=False):
                yield torch.stack([self.dataset[item][0] for item in items])


class _Augmented(Dataset[Any]):
    """Pictures after a transform that draws from a seed of its own."""

    def __init__(self, source: Source, transform: Any) -> None:
        self.source = source
        self.transform = transform

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, item: Item) -> tuple[Tensor, int]:
        index, seed = item
        image, label = self.source[index]
        with random_state(seed):
            return self.transform(image), label


def _training_transform(images: Images, recipe: Recipe) -> Any:
    whole = None if recipe.crop else (1.0, 1.0)
    return package("timm.data").create_transform(
        recipe.image,
        is_training=True,
        scale=whole,
        ratio=whole,
        hflip=recipe.flip,
        color_jitter=None,
        auto_augment=recipe.randaugment or None,
        interpolation="bicubic",
        mean=images.mean,
        std=images.std,
        re_prob=recipe.erase,
    )


def _plain_transform(images: Images, recipe: Recipe) -> Any:
    return package("timm.data").create_transform(
        recipe.image,
        interpolation="bicubic",
        crop_pct=0.9 if recipe.crop else 1.0,
        mean=images.mean,
        std=images.std,
    )


def mixing(recipe: Recipe, classes: int) -> Any:
    """Timm's Mixup and CutMix, or None."""
    if not (recipe.mixup or recipe.cutmix):
        return None
    return package("timm.data").Mixup(
        recipe.mixup,
        recipe.cutmix,
        label_smoothing=recipe.smoothing,
        num_classes=classes,
    )


def mixed(
    mix: Any, images: Tensor, labels: Tensor, classes: int, smoothing: float, *seed: int
) -> tuple[Tensor, Tensor]:
    """The images, and a probability of each class for each; all processes mix alike."""
    if mix is None:
        off = smoothing / classes
        targets = torch.full((len(labels), classes), off, device=labels.device)
        targets[torch.arange(len(labels)), labels] += 1 - smoothing
        return images, targets
    with random_state(seed_of(*seed)):
        inputs, targets = mix(images, labels)
    return inputs, targets
