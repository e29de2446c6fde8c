"""From the options to a network and its inputs, ready to be measured."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from critinit.cli._console import note
from critinit.cli._inputs import batches, draw, name_of_data
from critinit.cli._options import Running, Subject
from critinit.cli._settings import split
from critinit.cli._weights import load_weights
from critinit.cli.errors import CommandError
from critinit.cli.sources import find, is_file
from critinit.report import Run


@dataclass(frozen=True)
class Prepared:
    """A network, what it is given, and what will be told about the run.

    Attributes:
        inputs: The batches.
        generator: Of whatever is random from here on.
        facts: For `Run`.
    """

    model: nn.Module
    inputs: list[Any]
    generator: torch.Generator
    facts: dict[str, Any]

    def run(self, **more: Any) -> Run:
        """What was run, for the report."""
        return Run(**self.facts, **more)


def prepare(subject: Subject, running: Running) -> Prepared:
    """Build the network and draw its inputs, in the asked precision and place."""
    device = _device(running)
    dtype: torch.dtype = getattr(torch, running.dtype)
    if is_file(subject.model):
        note(f"running {subject.model.rpartition(':')[0]}", running.quiet)
    source = find(subject.model, split(subject.settings))
    generator = torch.Generator().manual_seed(running.seed)
    examples, wanted = draw(subject, source, generator)
    torch.manual_seed(running.seed)
    model = source.build(examples.shape[1:])
    if subject.weights:
        load_weights(model, subject.weights)
    model.to(device, dtype)
    examples = examples.to(device, dtype if examples.is_floating_point() else None)
    facts = {
        "command": command_line(),
        "model": " ".join([subject.model, *subject.settings]),
        "data": name_of_data(subject, wanted),
        "seed": running.seed,
        "options": _options(subject, running, examples),
    }
    return Prepared(model, batches(examples, subject, wanted), generator, facts)


def command_line() -> str:
    """What this process was called with."""
    return shlex.join(["critinit", *sys.argv[1:]])


def _device(running: Running) -> torch.device:
    if running.threads:
        torch.set_num_threads(running.threads)
    try:
        device = torch.device(running.device)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise CommandError(f"--device {running.device} cannot be used: {reason}") from error
    return device


def _options(subject: Subject, running: Running, examples: torch.Tensor) -> dict[str, Any]:
    found = {
        "Example": "×".join(map(str, examples.shape[1:])),
        "Device": running.device,
        "Precision": str(running.dtype),
    }
    return {**found, "Weights": str(subject.weights)} if subject.weights else found
