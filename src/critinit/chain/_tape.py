"""One block as the list of calls it is made of, so that it can be run again on its own."""

from __future__ import annotations

import copy
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import Node
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from critinit._state import copy_in_use, original
from critinit.errors import ModelError

_AS_THEY_ARE = (
    nn.Module,
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
    torch.Generator,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    type,
    int,
    float,
    complex,
    str,
    bytes,
    slice,
    type(None),
    type(Ellipsis),
)


@dataclass(frozen=True)
class Slot:
    """Stands for the tensor that an earlier call of the same block returned."""

    index: int


@dataclass(frozen=True)
class Snapshot:
    """An object that calls may change, such as a key-value cache, as it was before the call."""

    state: object


@dataclass(frozen=True)
class Entry:
    run: Callable[..., Any]
    leaves: list[Any]
    spec: TreeSpec
    slots: list[int]
    with_gradients: bool  # False inside a no_grad of the model


@dataclass
class Tape:
    """The calls between two boundaries. Recording keeps the tensors of this one block alive."""

    entries: list[Entry] = field(default_factory=list)
    outputs: tuple[int, ...] | None = None
    _saw_unseen: bool = False
    _start: set[Node] = field(default_factory=set)
    _slot_of: dict[int, int] = field(default_factory=dict)
    _alive: list[Tensor] = field(default_factory=list)
    _pending: tuple[list[Any], TreeSpec] | None = None

    @classmethod
    def starting_from(cls, tensors: tuple[Tensor, ...]) -> Tape:
        tape = cls()
        for tensor in tensors:
            tape._new_slot(tensor)
        tape._start = {t.grad_fn for t in tensors if t.grad_fn is not None}
        return tape

    def before(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Note a call's arguments, before it can change them."""
        leaves, spec = tree_flatten((args, kwargs))
        self._pending = [self._stand_in(leaf) for leaf in leaves], spec

    def after(self, run: Callable[..., Any], tensors: list[Tensor]) -> None:
        """Note what the call returned."""
        assert self._pending is not None
        if getattr(run, "__name__", "") == "_set_grad_enabled":
            return  # a change of mode is kept with each call instead
        slots = [self._new_slot(tensor) for tensor in tensors]
        self.entries.append(Entry(run, *self._pending, slots, torch.is_grad_enabled()))
        self._pending = None

    def finish(self, outputs: tuple[Tensor, ...]) -> None:
        """End the block with these tensors and let go of all others."""
        slots = [self._slot_of.get(id(t)) for t in outputs]
        if None not in slots and not self._saw_unseen:
            self.outputs = tuple(s for s in slots if s is not None)
        self._start.clear()
        self._slot_of.clear()
        self._alive.clear()

    def replay(
        self, h: tuple[Tensor, ...], stand_in: Callable[[Tensor], Tensor] | None = None
    ) -> tuple[Tensor, ...]:
        """Run the block again from ``h``, with the parameters that its modules hold now.

        Those that the calls name directly are passed through ``stand_in``.
        """
        if self.outputs is None:
            raise ModelError(
                "this block uses a tensor from a call that cannot be seen from Python (such as a "
                "scripted function), so it cannot be run alone. Put that call in a module of its "
                "own."
            )
        values: dict[int, Tensor] = {i: tensor.clone() for i, tensor in enumerate(h)}
        for entry in self.entries:
            args, kwargs = tree_unflatten(
                [_filled(x, values, stand_in) for x in entry.leaves], entry.spec
            )
            with torch.set_grad_enabled(entry.with_gradients and torch.is_grad_enabled()):
                returned = entry.run(*args, **kwargs)
            tensors = [x for x in tree_flatten(returned)[0] if isinstance(x, Tensor)]
            values.update(zip(entry.slots, tensors, strict=True))
        return tuple(values[slot] for slot in self.outputs)

    def _new_slot(self, tensor: Tensor) -> int:
        self._alive.append(tensor)
        self._slot_of[id(tensor)] = len(self._alive) - 1
        return len(self._alive) - 1

    def _stand_in(self, leaf: Any) -> Any:
        if id(leaf) in self._slot_of:
            return Slot(self._slot_of[id(leaf)])
        if isinstance(leaf, Tensor):
            source = original(leaf)
            if source is not leaf or not leaf.requires_grad:
                return source
            self._saw_unseen |= _follows(leaf, self._start)  # h, but no call returned it
            return leaf.detach()
        if isinstance(leaf, _AS_THEY_ARE):
            return leaf
        return Snapshot(_copy_around_tensors(leaf))


def _follows(tensor: Tensor, start: set[Node]) -> bool:
    """Whether ``tensor`` was computed from a tensor that one of the nodes in ``start`` made."""
    stack = [tensor.grad_fn]
    seen = set(stack)
    while stack:
        node = stack.pop()
        if node in start:
            return True
        for child, _ in () if node is None else node.next_functions:
            if child not in seen:
                seen.add(child)
                stack.append(child)
    return False


def _filled(
    leaf: Any, values: dict[int, Tensor], stand_in: Callable[[Tensor], Tensor] | None
) -> Any:
    if isinstance(leaf, Slot):
        return values[leaf.index]
    if stand_in is not None and isinstance(leaf, nn.Parameter):
        return stand_in(leaf)
    if isinstance(leaf, Snapshot):
        return _copy_around_tensors(leaf.state)
    return copy_in_use(leaf) if isinstance(leaf, Tensor) else leaf


class _ShareTensors(TorchFunctionMode):
    """Lets ``copy.deepcopy`` copy the containers and keep the tensors."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if getattr(func, "__name__", "") == "__deepcopy__":
            return args[0]
        return func(*args, **(kwargs or {}))


def _copy_around_tensors(value: object) -> object:
    with _ShareTensors():
        return copy.deepcopy(value)
