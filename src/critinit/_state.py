"""Leave no trace: whatever a run changes in the model or in global state is put back."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from operator import is_
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

T = TypeVar("T")


@contextmanager
def untouched(model: nn.Module, seed: int) -> Iterator[None]:
    """Work with gradients on and a private random state; afterwards all is as it was.

    Parameters do not ask for gradients inside, so no weight gradient is computed by accident.
    Each run of the model inside is wrapped in `module_state` besides.
    """
    parameters = list(model.parameters())
    asked = [p.requires_grad for p in parameters]
    with random_state(seed), _torch_settings(), torch.inference_mode(False), torch.enable_grad():
        try:
            for parameter in parameters:
                parameter.requires_grad_(False)
            yield
        finally:
            for parameter, was in zip(parameters, asked, strict=True):
                parameter.requires_grad_(was)


@contextmanager
def _torch_settings() -> Iterator[None]:
    """Keep autocast from remembering weights, and transformers from their inference-only path."""
    cached, fast = torch.is_autocast_cache_enabled(), torch.backends.mha.get_fastpath_enabled()
    torch.set_autocast_cache_enabled(False)
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(cached)
        torch.backends.mha.set_fastpath_enabled(fast)


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
def module_state(model: nn.Module, written: Iterable[Tensor] = ()) -> Iterator[None]:
    """Put back the attributes, hooks, modes and buffers of every submodule afterwards.

    So every run starts from the model's own state, however many went before. Attributes are kept
    by reference, containers among them (hooks, parameters, lists) as copies. The run gets copies
    of the buffers, so that a backward pass which waits for them does not notice. Parameters that
    are written in place (embeddings with ``max_norm``, and ``written`` ones) are kept by value.
    """
    modules = list(model.modules())
    saved = [(m.__dict__, dict(m.__dict__), _filled_containers(m)) for m in modules]
    values = [(p, p.data, p.data.clone()) for p in {*_renormalized_weights(modules), *written}]
    try:
        _run_on_copies_of_buffers(modules)
        yield
    finally:
        for attributes, values_before, containers in saved:
            _restore(attributes, values_before, containers)
        for parameter, data, value in values:
            parameter.data = data
            data.copy_(value)


@contextmanager
def all_or_nothing(model: nn.Module) -> Iterator[None]:
    """Put every parameter and buffer back if anything is raised inside."""
    tables = [(m._buffers, dict(m._buffers)) for m in model.modules()]
    tensors = [*model.parameters(), *model.buffers()]
    values = [tensor.detach().clone() for tensor in tensors]
    try:
        yield
    except BaseException:
        for table, before in tables:
            table.update(before)
        with torch.no_grad():
            for tensor, value in zip(tensors, values, strict=True):
                tensor.copy_(value)
        raise


def _run_on_copies_of_buffers(modules: Iterable[nn.Module]) -> None:
    copies: dict[int, Tensor] = {}
    for module in modules:
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = copies.setdefault(id(buffer), _copy_of(buffer))


def _copy_of(buffer: Tensor) -> Tensor:
    return standing_for(buffer, buffer.detach().clone())


def standing_for(original: Tensor, stand_in: Tensor) -> Tensor:
    """``stand_in``, marked as what a run uses in place of a buffer or parameter."""
    stand_in._critinit_original = original  # type: ignore[attr-defined]
    return stand_in


def original(tensor: Tensor) -> Tensor:
    """The buffer or parameter that ``tensor`` stands for in a run, or the tensor itself."""
    found: Tensor = getattr(tensor, "_critinit_original", tensor)
    return found


_Container = dict[Any, Any] | list[Any] | set[Any]
_CONTAINERS = (dict, list, set)


def _filled_containers(module: nn.Module) -> dict[str, _Container]:
    return {
        key: copy(value)
        for key, value in module.__dict__.items()
        if isinstance(value, _CONTAINERS) and value
    }


def _restore(
    attributes: dict[str, Any], before: dict[str, Any], containers: dict[str, _Container]
) -> None:
    if not _same(attributes, before):
        attributes.clear()
        attributes.update(before)
    for key, value in before.items():
        if not isinstance(value, _CONTAINERS) or not (value or key in containers):
            continue  # most tables of hooks are empty and stay so
        saved = containers.get(key, ())
        if isinstance(value, dict):
            table = dict(saved)
            if not _same(value, table):
                value.clear()
                value.update(table)
        elif isinstance(value, list):
            value[:] = saved
        else:
            value.clear()
            value.update(saved)


def _same(now: dict[Any, Any], before: dict[Any, Any]) -> bool:
    """Equality by identity: comparing tensors would compare their components."""
    return list(now) == list(before) and all(map(is_, now.values(), before.values()))


def _renormalized_weights(modules: Iterable[nn.Module]) -> list[Tensor]:
    """The one kind of parameter that torch itself rewrites in a forward pass."""
    embeddings = (nn.Embedding, nn.EmbeddingBag)
    return [m.weight for m in modules if isinstance(m, embeddings) and m.max_norm is not None]


@contextmanager
def random_state(seed: int) -> Iterator[None]:
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


def with_own_randomness(draw: Callable[[], Iterator[T]], generator: torch.Generator) -> Iterator[T]:
    """The items of ``draw()``, for which alone the global generators run on from a seed.

    It is the one ``generator`` began with, so a loader that shuffles or augments gives the same
    items each time, and neither ``generator`` nor anybody else notices.
    """
    seed = generator.initial_seed()
    items: Iterator[T] | None = None
    state: tuple[Any, ...] = ()
    while True:
        with random_state(seed):
            if state:
                torch.set_rng_state(state[0])
                random.setstate(state[1])
                np.random.set_state(state[2])
            items = draw() if items is None else items
            try:
                item = next(items)
            except StopIteration:
                return
            state = torch.get_rng_state(), random.getstate(), np.random.get_state()
        yield item


def draw_seed(generator: torch.Generator) -> int:
    """A seed for the model's own randomness (dropout), taken from ``generator``."""
    device = generator.device
    return int(torch.randint(2**48, (), generator=generator, device=device))
