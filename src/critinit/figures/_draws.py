"""What a point draws: its seeds, and its batch of inputs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from critinit import data
from critinit.figures._figure import Settings


def seed_of(what: str, point: Mapping[str, Any], seed: int) -> int:
    """A seed for ``what`` of the point's own; the same on every machine.

    Weights and probes need one each: from the same seed they would be the same numbers.
    """
    text = json.dumps([what, dict(point), seed], sort_keys=True)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big")


def generator_of(what: str, point: Mapping[str, Any], seed: int) -> torch.Generator:
    """A generator with that seed."""
    return torch.Generator().manual_seed(seed_of(what, point, seed))


def flat_batch(settings: Settings, size: int) -> Tensor:
    """The first ``size`` examples of a shuffled ``settings["data"]``, normalized, as vectors."""
    return images(settings["data"], size, settings["seed"]).flatten(1)


@lru_cache(maxsize=4)
def images(source: str, size: int, seed: int) -> Tensor:
    """A normalized batch; reading it takes longer than many a point."""
    return data.batch(source, size, generator=torch.Generator().manual_seed(seed))


def data_words(settings: Settings) -> str:
    """For the picture."""
    source: str = settings["data"]
    known = {"cifar10": "CIFAR-10, normalized", "gaussian": "Gaussian noise"}
    return f"inputs: {known.get(source, source)}"
