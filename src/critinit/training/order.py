"""Which image comes when, and with which random numbers, in any number of processes.

Every random number of a training is drawn from a seed that follows from the run's seed, the epoch
and the place in it. So there are no random states to save: a run that is resumed, at whatever step
and however many processes share it, sees what the uninterrupted one did.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from critinit.training._packages import package

_ROUND = 256  # timm's, of the images in an epoch; its older versions would round fewer down to none

Item = tuple[int, int]
"""The number of an image, and the seed of its augmentation."""


def seed_of(*numbers: int) -> int:
    """One seed from several numbers, such as a run's seed, the epoch and the step."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(2))


@dataclass(frozen=True)
class Order:
    """The batches of every epoch.

    Attributes:
        examples: In the training set.
        batch: Images in a batch, over all processes.
        repeats: How often each image comes, one after the other.
        seed: Of the run.
    """

    examples: int
    batch: int
    repeats: int
    seed: int

    def __len__(self) -> int:
        """Batches in an epoch; the last, incomplete one is left out."""
        return self._drawn() // self.batch

    def batches(
        self, epoch: int, start: int = 0, rank: int = 0, processes: int = 1
    ) -> Iterator[list[Item]]:
        """One process's part of each batch, from the ``start``-th on."""
        indices = self._indices(epoch)
        for step in range(start, len(self)):
            at = range(step * self.batch, (step + 1) * self.batch)
            yield [
                (indices[place], seed_of(self.seed, epoch, place))
                for place in part(at, rank, processes)
            ]

    def _drawn(self) -> int:
        return self.examples if self.repeats == 1 else len(self._sampler())

    def _indices(self, epoch: int) -> list[int]:
        if self.repeats == 1:
            generator = torch.Generator().manual_seed(seed_of(self.seed, epoch))
            return torch.randperm(self.examples, generator=generator).tolist()
        sampler = self._sampler()
        sampler.set_epoch(seed_of(self.seed, epoch))
        return list(sampler)

    def _sampler(self) -> Any:
        """timm's, as for one process: each batch is divided among the processes here."""
        return package("timm.data.distributed_sampler").RepeatAugSampler(
            range(self.examples),
            num_replicas=1,
            rank=0,
            num_repeats=self.repeats,
            selected_round=_ROUND if self.examples >= _ROUND else 0,
        )


def part(places: range, rank: int, processes: int) -> list[int]:
    """The places of one process, from both ends of the batch.

    Mixup pairs the first image with the last, the second with the one before it, and so on. A
    process that holds both of each pair mixes as if it held the whole batch.

    >>> [part(range(8), rank, 2) for rank in (0, 1)]
    [[0, 1, 6, 7], [2, 3, 4, 5]]
    """
    if processes == 1:
        return list(places)
    half = len(places) // (2 * processes)
    low, high = rank * half, (rank + 1) * half
    return [*places[low:high], *places[len(places) - high : len(places) - low]]
