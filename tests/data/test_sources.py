"""Every source in memory by name, batches of it, and what is refused."""

from __future__ import annotations

import gzip
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from miniature import Miniature, saved
from sklearn.datasets import load_digits
from torch import Tensor

from critinit.data import (
    CorruptDataError,
    DataError,
    MissingDataError,
    batch,
    fetch_cifar10,
    load,
)


@pytest.fixture
def fashion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Fashion-MNIST with twelve images to train on, compressed, and three to test on, plain."""
    folder = tmp_path / "fashion"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for prefix, count in (("train", 12), ("t10k", 3)):
        images = rng.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        labels = np.arange(count, dtype=np.uint8) % 10
        for name, array in ((f"{prefix}-images-idx3", images), (f"{prefix}-labels-idx1", labels)):
            data = struct.pack(f">4B{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
            data += array.tobytes()
            if prefix == "train":
                (folder / f"{name}-ubyte.gz").write_bytes(gzip.compress(data))
            else:
                (folder / f"{name}-ubyte").write_bytes(data)
    monkeypatch.setenv("CRITINIT_FASHION_MNIST", str(folder))
    return folder


def test_digits_are_scikit_learn_s() -> None:
    digits = load_digits()
    train, test = load("digits"), load("digits", "test")
    images = torch.cat([train.images, test.images]).squeeze(1) * 16
    assert torch.equal(images, torch.from_numpy(digits.images).float())
    assert train.labels is not None
    assert test.labels is not None
    assert torch.cat([train.labels, test.labels]).tolist() == digits.target.tolist()
    assert (len(train), len(test), train.classes) == (1500, 297, 10)
    assert torch.equal(train.mean, test.mean)
    assert float(train.normalized().square().mean()) == pytest.approx(1, rel=1e-5)
    assert float(test.normalized().square().mean()) != pytest.approx(1, rel=1e-5)
    assert load("digits", size=32, channels=3).images.shape == (1500, 3, 32, 32)


def test_fashion_mnist(fashion: Path) -> None:
    train, test = load("fashion-mnist"), load("fashion-mnist", "test", directory=fashion)
    assert train.images.shape == (12, 1, 28, 28)
    assert train.images.dtype == torch.uint8
    assert test.labels is not None
    assert test.labels.tolist() == [0, 1, 2]
    assert test.class_names[9] == "Ankle boot"
    raw = (fashion / "t10k-images-idx3-ubyte").read_bytes()
    assert bytes(test.images.flatten().tolist()) == raw[16:]


def test_gaussian() -> None:
    data = load("gaussian", "test")
    assert data.images.shape == (1024, 3, 32, 32)
    assert torch.equal(data.normalized(), data.images)
    assert not torch.equal(data.images, load("gaussian").images)
    assert torch.equal(data.images, load("gaussian", "test").images)
    error = (data.images.numel()) ** -0.5
    assert abs(float(data.images.mean())) < 4 * error
    assert abs(float(data.images.square().mean()) - 1) < 4 * 2**0.5 * error
    assert batch("gaussian", 2, 5, 7).shape == (2, 7, 5, 5)
    assert batch("gaussian", 2, (4, 6)).shape == (2, 3, 4, 6)
    assert batch("gaussian", 2, (10,), 4).shape == (2, 4, 10)
    assert batch("gaussian", 2, (2, 3, 4, 5)).shape == (2, 2, 3, 4, 5)
    for size in ((), (0,), 0, (3, -1)):
        with pytest.raises(DataError, match="is empty"):
            batch("gaussian", 2, size)


# Batches.


def whole_set(source: str, count: int, **options: Any) -> Tensor:
    return batch(source, count, **options).double()


@pytest.mark.parametrize("options", [{}, {"size": 20}, {"size": (5, 12)}, {"channels": 3}])
def test_over_the_whole_set_channels_have_mean_0_and_variance_1(
    options: dict[str, Any], mini: Miniature, fashion: Path, cache: Path
) -> None:
    """In the size the network sees, so that K^0 is 1."""
    fetch_cifar10(cache, archive=mini.official_archive(), release=mini.release)
    for source, count, directory in [
        ("digits", 1500, None),
        ("fashion-mnist", 12, None),
        ("cifar10", 20, cache),
    ]:
        x = whole_set(source, count, directory=directory, **options)
        channels = torch.zeros(x.shape[1], dtype=torch.float64)
        torch.testing.assert_close(x.mean((0, 2, 3)), channels, rtol=0, atol=1e-5)
        torch.testing.assert_close(x.square().mean((0, 2, 3)), channels + 1, rtol=1e-5, atol=0)


def test_a_batch_is_drawn_without_replacement_by_the_generator_alone(tmp_path: Path) -> None:
    source = saved(tmp_path, np.arange(40, dtype=np.float32).reshape(20, 2))
    state = torch.get_rng_state()
    first = batch(source, 20)
    assert len(first.unique(dim=0)) == 20
    assert torch.equal(first, batch(source, 20))
    generator = torch.Generator().manual_seed(5)
    other = batch(source, 6, generator=generator)
    assert not torch.equal(other, first[:6])
    assert not torch.equal(other, batch(source, 6, generator=generator)), "it goes on"
    assert torch.equal(torch.get_rng_state(), state)
    data = load(source)
    assert {tuple(r) for r in first.tolist()} == {tuple(r) for r in data.normalized().tolist()}


def test_the_test_split_is_normalized_by_the_training_split() -> None:
    x = batch("digits", 297, split="test")
    expected = load("digits", "test").normalized()
    torch.testing.assert_close(x.mean(), expected.mean())
    torch.testing.assert_close(x.square().mean(), expected.square().mean())


# What is refused.


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("cifar-10", "Did you mean cifar10?"),
        ("CIFAR10", "Did you mean cifar10?"),
        ("fashion_mnist", "Did you mean fashion-mnist?"),
        ("fashionmnist", "Did you mean fashion-mnist?"),
        ("gausian", "Did you mean gaussian?"),
        ("digit", "Did you mean digits?"),
        (str(Path(__file__).parent), f"Did you mean folder:{Path(__file__).parent}?"),
        ("xyzzy", "no data source 'xyzzy'. The sources are gaussian, digits"),
        ("", "The sources are"),
        ("folder:", "needs a path"),
    ],
)
def test_unknown_sources(source: str, words: str) -> None:
    for call in (lambda: load(source), lambda: batch(source, 2)):
        with pytest.raises(DataError) as caught:
            call()
        assert words in str(caught.value)


def test_other_refusals(tmp_path: Path) -> None:
    vectors = saved(tmp_path, np.zeros((4, 5)))
    refusals: list[tuple[Callable[[], object], str]] = [
        (lambda: load("digits", "valid"), "use 'train' or 'test'"),
        (lambda: load(vectors, "test"), "without test examples"),
        (lambda: load(vectors, size=8), "not an image"),
        (lambda: batch(vectors, 2, channels=3), "not an image"),
        (lambda: batch("digits", 0), "batch=0"),
        (lambda: batch("digits", 1501), "1500 examples to draw from, fewer than 1501"),
        (lambda: batch("digits", 2, 0), "size=0"),
        (lambda: batch("digits", 2, (8, 8, 8)), r"size=\(8, 8, 8\)"),
        (lambda: batch("digits", 2, channels=0), "be given as 0"),
    ]
    for call, words in refusals:
        with pytest.raises(DataError, match=words):
            call()


def test_fashion_mnist_that_is_missing_or_damaged(fashion: Path) -> None:
    with pytest.raises(MissingDataError, match=r"dataset-fashion-mnist.*CRITINIT_FASHION_MNIST"):
        load("fashion-mnist", directory=fashion / "nowhere")
    images, labels = fashion / "t10k-images-idx3-ubyte", fashion / "t10k-labels-idx1-ubyte"
    for path, spoil, words in [
        (images, lambda b: b[:-1], "fetch it again"),
        (images, lambda b: b[:10], "not an IDX file"),
        (images, lambda b: b"\x00\x00\x0d\x03" + b[4:], "not an IDX file"),
        (images, lambda b: b"", "not an IDX file"),
        (images, lambda b: b[:4] + struct.pack(">3I", 0, 28, 28), "fetch it again"),
        (labels, lambda b: b[:8] + b"\x01\x02\x0a", "the label 10"),
        (labels, lambda b: b[:7] + b"\x02\x01\x01", "3 images but 2 labels"),
    ]:
        whole = path.read_bytes()
        path.write_bytes(spoil(whole))
        with pytest.raises(CorruptDataError, match=words):
            load("fashion-mnist", "test")
        path.write_bytes(whole)
    compressed = fashion / "train-images-idx3-ubyte.gz"
    for broken in (compressed.read_bytes()[:-20], b"text"):
        compressed.write_bytes(broken)
        with pytest.raises(CorruptDataError, match="cannot be read"):
            load("fashion-mnist")


@pytest.mark.parametrize(
    ("module", "source"), [("sklearn.datasets", "digits"), ("PIL.Image", "folder:{}")]
)
def test_a_package_is_missing(
    module: str, source: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "picture.png").touch()
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(DataError, match=r"pip install 'critinit\[data\]'"):
        load(source.format(tmp_path))


def test_cifar10_needs_pillow_only_for_the_package(
    mini: Miniature, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mini.install_npm()
    monkeypatch.setenv("PATH", mini.environment()["PATH"])
    archive, release = mini.official_archive(), mini.release
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(DataError, match=r"pip install 'critinit\[data\]'"):
        fetch_cifar10(cache, release=release)
    fetch_cifar10(cache, archive=archive, release=release)
    assert len(load("cifar10", directory=cache)) == 20
