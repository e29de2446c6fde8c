"""Batches follow from the seed alone, and processes share them without a difference."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from critinit.training.images import mixed, mixing
from critinit.training.order import Order, part, seed_of
from critinit.training.recipes import find


@pytest.mark.parametrize("repeats", [1, 3])
def test_an_epoch_shows_each_image_as_often_as_asked(repeats: int) -> None:
    order = Order(examples=600, batch=32, repeats=repeats, seed=5)
    items = [item for batch in order.batches(0) for item in batch]
    counts = Counter(index for index, _ in items)
    assert len(items) == len(order) * 32
    assert len({seed for _, seed in items}) == len(items), "every view is another one"
    full = [index for index, count in counts.items() if count == repeats]
    assert len(counts) - len(full) <= 1, "but the last, which is cut off"
    assert len(order) == (600 if repeats == 1 else 600 // 256 * 256) // 32


def test_epochs_and_seeds_differ() -> None:
    def first(seed: int, epoch: int) -> list[tuple[int, int]]:
        return next(Order(600, 32, 3, seed).batches(epoch))

    assert first(0, 0) == first(0, 0)
    assert first(0, 0) != first(0, 1)
    assert first(0, 0) != first(1, 0)


@pytest.mark.parametrize("processes", [2, 4])
@pytest.mark.parametrize("repeats", [1, 3])
def test_processes_share_each_batch(processes: int, repeats: int) -> None:
    order = Order(600, 32, repeats, 0)
    whole = list(order.batches(2))
    parts = [list(order.batches(2, 0, rank, processes)) for rank in range(processes)]
    for step, batch in enumerate(whole):
        shares = [parts[rank][step] for rank in range(processes)]
        assert all(len(share) == 32 // processes for share in shares)
        assert sorted(item for share in shares for item in share) == sorted(batch)


def test_a_later_start_skips_whole_batches() -> None:
    order = Order(600, 32, 3, 0)
    assert list(order.batches(1, 3)) == list(order.batches(1))[3:]


@pytest.mark.parametrize("processes", [2, 4])
def test_mixup_of_the_parts_is_mixup_of_the_whole(processes: int) -> None:
    recipe = find("resmlp-s12-imagenet")  # Mixup, CutMix and smoothing
    x, y = torch.randn(16, 3, 8, 8), torch.randint(0, 5, (16,))
    for step in range(6):
        mix = mixing(recipe, 5)
        whole, targets = mixed(mix, x.clone(), y, 5, 0.1, 0, step)
        for rank in range(processes):
            mine = part(range(16), rank, processes)
            share, its = mixed(mixing(recipe, 5), x[mine].clone(), y[mine], 5, 0.1, 0, step)
            torch.testing.assert_close(share, whole[mine])
            torch.testing.assert_close(its, targets[mine])
        assert not torch.equal(whole, x) or step > 0


def test_without_mixup_labels_are_smoothed_only() -> None:
    x, y = torch.randn(2, 3, 4, 4), torch.tensor([1, 0])
    same, targets = mixed(None, x, y, 4, 0.2, 0)
    assert same is x
    expected = torch.tensor([[0.05, 0.85, 0.05, 0.05], [0.85, 0.05, 0.05, 0.05]])
    torch.testing.assert_close(targets, expected)


def test_seeds_are_spread() -> None:
    seeds = {seed_of(a, b, c) for a in range(10) for b in range(10) for c in range(10)}
    assert len(seeds) == 1000
    assert all(0 <= seed < 2**62 for seed in seeds)
