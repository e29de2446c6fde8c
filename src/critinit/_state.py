"""Leave no trace: whatever a run changes in the model or in global state is put back."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


@contextmanager
def untouched(model: nn.Module, seed: int) -> Iterator[None]:
    """Work with gradients on and a private random state; afterwards all is as it was.

    Parameters do not ask for gradients inside, so no weight gradient is computed by accident.
    Each run of the model inside is wrapped in `module_state` besides.
    """
    parameters = list(model.parameters())
    asked = [p.requires_grad for p in parameters]
    with _random_state(seed), torch.inference_mode(False), torch.enable_grad():
        try:
            for parameter in parameters:
                parameter.requires_grad_(False)
            yield
        finally:
            for parameter, was in zip(parameters, asked, strict=True):
                parameter.requires_grad_(was)


@contextmanager
def gradients_for(parameters: Iterable[Tensor]) -> Iterator[None]:
    """Inside, the floating ones among ``parameters`` ask for gradients."""
    switched = [p for p in parameters if p.is_floating_point() and not p.requires_grad]
    try:
        for parameter in switched:
            parameter.requires_grad_(True)
        yield
    finally:
        for parameter in switched:
            parameter.requires_grad_(False)


@contextmanager
def module_state(model: nn.Module) -> Iterator[None]:
    """Put back the attributes, hooks, modes and buffers of every submodule afterwards.

    So every run starts from the model's own state, however many went before. Attributes are kept
    by reference, tables of them (hooks, buffers, parameters) as copies, and what is written in
    place (buffers; embeddings with ``max_norm``) by value.
    """
    saved = [(m.__dict__, dict(m.__dict__), _filled_tables(m)) for m in model.modules()]
    written = [*model.buffers(), *_renormalized_weights(model)]
    values = [tensor.detach().clone() for tensor in written]
    try:
        yield
    finally:
        for attributes, values_before, tables in saved:
            _restore(attributes, values_before, tables)
        with torch.no_grad():
            for tensor, value in zip(written, values, strict=True):
                tensor.copy_(value)


def _filled_tables(module: nn.Module) -> dict[str, dict[Any, Any]]:
    return {k: dict(v) for k, v in module.__dict__.items() if isinstance(v, dict) and v}


def _restore(
    attributes: dict[str, Any], before: dict[str, Any], tables: dict[str, dict[Any, Any]]
) -> None:
    if not _same(attributes, before):
        attributes.clear()
        attributes.update(before)
    for key, value in before.items():
        if isinstance(value, dict) and not _same(value, table := tables.get(key, {})):
            value.clear()
            value.update(table)


def _same(now: dict[Any, Any], before: dict[Any, Any]) -> bool:
    """Equality by identity: comparing tensors would compare their components."""
    return len(now) == len(before) and all(
        a is b and x is y for (a, x), (b, y) in zip(now.items(), before.items(), strict=True)
    )


def _renormalized_weights(model: nn.Module) -> list[Tensor]:
    """The one kind of parameter that torch itself rewrites in a forward pass."""
    embeddings = (nn.Embedding, nn.EmbeddingBag)
    return [
        m.weight for m in model.modules() if isinstance(m, embeddings) and m.max_norm is not None
    ]


@contextmanager
def _random_state(seed: int) -> Iterator[None]:
    """Seed every global random generator for the run, and restore them afterwards."""
    python, numpy = random.getstate(), np.random.get_state()
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with torch.random.fork_rng(devices=devices):
        torch.default_generator.manual_seed(seed)
        if devices:
            torch.cuda.manual_seed_all(seed)
        random.seed(seed)
        np.random.seed(seed % 2**32)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)


def draw_seed(generator: torch.Generator) -> int:
    """A seed for the model's own randomness (dropout), taken from ``generator``."""
    device = generator.device
    return int(torch.randint(2**48, (), generator=generator, device=device))
