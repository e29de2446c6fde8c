"""``--data`` and ``--size``: the batches that a network is looked at with."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from critinit import data
from critinit.cli._options import Subject
from critinit.cli.errors import CommandError
from critinit.cli.sources import Example, Source

_NOISE, _TOKENS = "gaussian", "tokens"
_SO_MANY_TOKENS = re.compile(f"{_TOKENS}(?::([1-9][0-9]*))?")
_LARGEST = 2**31 - 1
_CHANNELS = 3


def draw(
    subject: Subject, source: Source, generator: torch.Generator
) -> tuple[Tensor, Example | None]:
    """All examples of all batches, as one tensor, and what the network takes."""
    wanted = source.example()
    size = _parsed(subject.size)
    count = subject.batch * subject.batches
    if tokens := _SO_MANY_TOKENS.fullmatch(name_of_data(subject, wanted)):
        given = int(tokens[1]) if tokens[1] else None
        return _tokens(subject, wanted, given, size, count, generator), wanted
    if subject.data.startswith(f"{_TOKENS}:"):
        raise CommandError(
            f"--data {subject.data}: give the number of tokens behind the colon, such as "
            f"{_TOKENS}:50257."
        )
    if wanted and wanted.vocabulary:
        raise CommandError(
            f"--data {subject.data}: {subject.model} reads token ids. Leave --data out, and it "
            "gets random ones."
        )
    if subject.data == _NOISE:
        shape = _noise_shape(subject, wanted, size)
        return data.batch(_NOISE, count, shape, generator=generator), wanted
    sides, channels = _image(size)
    if wanted and not source.adapts:
        sides, channels = sides or wanted.shape[1:], channels or wanted.shape[0]
    return data.batch(subject.data, count, sides, channels, generator=generator), wanted


def name_of_data(subject: Subject, wanted: Example | None) -> str:
    """Noise, where it is for a text, is tokens."""
    if subject.data == _NOISE and wanted and wanted.vocabulary:
        return f"{_TOKENS}:{wanted.vocabulary}"
    return subject.data


def batches(examples: Tensor, subject: Subject, wanted: Example | None) -> list[Any]:
    """As `critinit.measure` takes them: several, each with its argument's name where it has one."""
    parts = examples.split(subject.batch)
    if wanted is None or wanted.argument is None:
        return list(parts)
    return [dict.fromkeys((wanted.argument, *wanted.also), part) for part in parts]


def _parsed(size: str | None) -> tuple[int, ...]:
    if size is None:
        return ()
    numbers = size.lower().replace("×", "x").split("x")
    if not all(n.isdecimal() and 0 < int(n) <= _LARGEST for n in numbers):
        raise CommandError(f"--size {size}: give numbers such as 32, 24x32 or 3x32x32.")
    return tuple(int(n) for n in numbers)


def _noise_shape(subject: Subject, wanted: Example | None, size: Sequence[int]) -> tuple[int, ...]:
    if not size:
        if wanted is None:
            raise CommandError(
                f"what {subject.model} takes is not known: say --size 3x32x32 for images, "
                "--size 784 for vectors, or name --data."
            )
        return wanted.shape
    channels = wanted.shape[0] if wanted and len(wanted.shape) == 3 else None
    if len(size) == 1 and channels:
        return (channels, size[0], size[0])
    if len(size) == 2:
        return (channels or _CHANNELS, *size)
    return tuple(size)


def _image(size: Sequence[int]) -> tuple[tuple[int, ...] | None, int | None]:
    match tuple(size):
        case ():
            return None, None
        case (side,):
            return (side, side), None
        case (height, width):
            return (height, width), None
        case (channels, height, width):
            return (height, width), channels
    raise CommandError(f"--size {'x'.join(map(str, size))}: images have at most three sizes.")


def _tokens(
    subject: Subject,
    wanted: Example | None,
    given: int | None,
    size: Sequence[int],
    count: int,
    generator: torch.Generator,
) -> Tensor:
    known = wanted.vocabulary if wanted else None
    vocabulary = given or known
    if vocabulary and vocabulary > (known or _LARGEST):
        raise CommandError(
            f"--data {subject.data}: {subject.model} knows {known or _LARGEST} tokens at most."
        )
    length = size or (wanted.shape if wanted else None)
    if not vocabulary or not length or len(length) != 1:
        raise CommandError(
            f"--data {subject.data}: random texts need the number of tokens and their length, "
            "such as --data tokens:50257 --size 64."
        )
    return torch.randint(vocabulary, (count, *length), generator=generator)
