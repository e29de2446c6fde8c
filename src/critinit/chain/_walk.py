"""Run the model once, stopping at every boundary of its chain."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_unflatten

from critinit._state import module_state
from critinit.chain._calls import CallWatcher, tensors_in
from critinit.chain._inputs import Batch
from critinit.chain._tape import Tape
from critinit.errors import CritinitError, ModelError

Tensors = tuple[Tensor, ...]


class Observer(Protocol):
    """What is done with ``h^0, h^1, …`` while they pass."""

    def enter(self, h: Tensors) -> Tensors:
        """Return what the next block shall start from in place of ``h``."""

    def leave(self, index: int, h: Tensors, out: Tensors, tape: Tape | None) -> Tensors:
        """Block ``index`` has led from ``h`` to ``out``. Return ``h^{index+1}``."""


@dataclass(frozen=True)
class Stop:
    """The walk stops after the ``call``-th counted call, at these of the tensors it returned."""

    call: int
    positions: tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """How to walk a model: what to open up, what calls to expect, where to stop."""

    model: nn.Module
    names: dict[nn.Module, str]
    output: Callable[[Any], Tensor]
    opened: frozenset[nn.Module]
    labels: tuple[str, ...]
    input_positions: tuple[int, ...]  # of h^0 among the floating inputs
    inlet: Stop | None  # or where h^0 is made, if the inputs are integers
    stops: tuple[Stop, ...]  # all boundaries but the output
    written: tuple[nn.Parameter, ...]  # parameters that the model itself overwrites
    complete: bool  # False if the model raised while it was discovered


class DivergedError(Exception):
    """The model made other calls than when its chain was found."""


class LeakError(Exception):
    """What left block ``stop - 1`` depends on what entered block ``start``, round the others."""

    def __init__(self, start: int, stop: int) -> None:
        super().__init__(start, stop)
        self.start = start
        self.stop = stop


class _Walker(CallWatcher):
    def __init__(self, plan: Plan, observer: Observer, record: bool) -> None:
        super().__init__(plan.names)
        self.plan = plan
        self.observer = observer
        self.record = record
        self.tape: Tape | None = None
        self.h: Tensors = ()
        self.place = "the input"
        self.observer_failed = False
        self._count = 0
        self._block = 0

    def start(self, h: Tensors) -> Tensors:
        """Begin a block at ``h``; the model gets copies, which it may overwrite."""
        with self._observing():
            self.h = self.observer.enter(h)
        for tensor in self.h:
            tensor._critinit_block = self._block  # type: ignore[attr-defined]
        copies = tuple(t.clone() for t in self.h)
        self.tape = Tape.starting_from(copies) if self.record else None
        return copies

    def stop(self, out: Tensors) -> Tensors:
        """End the current block at ``out``."""
        if self.tape is not None:
            self.tape.finish(out)
        self._check_for_leaks(out)
        index, self._block = self._block, self._block + 1
        h, self.h = self.h, ()
        with self._observing():
            return self.observer.leave(index, h, out, self.tape)

    @contextmanager
    def _observing(self) -> Iterator[None]:
        """Tell what the observer raises from what the model raises."""
        try:
            yield
        except Exception:
            self.observer_failed = True
            raise

    def _check_for_leaks(self, out: Tensors) -> None:
        """Find tensors of earlier blocks that the model kept for itself and used again.

        They are known by the leaf that their autograd graph ends in.
        """
        if not all(t.is_leaf for t in self.h):
            return  # the graph is to reach back
        for leaf in _leaves_behind(out):
            block = getattr(leaf, "_critinit_block", self._block)
            if block < self._block:
                raise LeakError(block, self._block + 1)

    def on_module(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if module in self.plan.opened:
            return self.forward(module, args, kwargs)

        def run(*args: Any, **kwargs: Any) -> Any:
            return self.forward(module, args, kwargs)

        label = self.plan.names.get(module) or type(module).__name__
        with self._unwatched():
            return self._counted(label, run, args, kwargs)

    def on_function(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        self.muted = True
        try:
            label = getattr(func, "__name__", str(func))
            return self._counted(label, func, args, kwargs)
        finally:
            self.muted = False

    def _counted(
        self, label: str, run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        self.place = label
        if self.tape is not None:
            self.tape.before(args, kwargs)
        out = run(*args, **kwargs)
        tensors = tensors_in(out)
        if not tensors and out is not None:
            return out
        if self.tape is not None:
            self.tape.after(run, tensors)
        labels, count = self.plan.labels, self._count
        if count >= len(labels) or labels[count] != label:
            raise DivergedError
        self._count += 1
        if self._block < len(self.plan.stops) and count == self.plan.stops[self._block].call:
            positions = self.plan.stops[self._block].positions
            return _exchange(out, positions, self.start(self.stop(_pick(tensors, positions))))
        if self.plan.inlet is not None and count == self.plan.inlet.call:
            positions = self.plan.inlet.positions
            return _exchange(out, positions, self.start(_pick(tensors, positions)))
        return out

    @contextmanager
    def _unwatched(self) -> Iterator[None]:
        """Take the mode off the stack, so that the inside of a call runs at full speed."""
        self.muted = True
        TorchFunctionMode.__exit__(self, None, None, None)
        try:
            yield
        finally:
            TorchFunctionMode.__enter__(self)
            self.muted = False

    def check_complete(self) -> None:
        finished = self._count == len(self.plan.labels) and self._block == len(self.plan.stops)
        if not (finished and self.plan.complete):
            raise DivergedError


def walk(plan: Plan, batch: Batch, observer: Observer, record: bool = False) -> None:
    """Run the model on ``batch`` and show ``observer`` every block on the way.

    With ``record`` each block comes with a `Tape` that can run it again.

    Raises:
        DivergedError: the calls are not those of ``plan``.
        ModelError: the model raised; the original exception is the cause.
    """
    walker = _Walker(plan, observer, record)
    batch = batch.outside_inference()
    if plan.inlet is None:
        floats = batch.floats()
        h = tuple(floats[position] for position in plan.input_positions)
        batch = batch.replace(plan.input_positions, walker.start(h))
        del floats, h
    with module_state(plan.model, plan.written):
        try:
            with walker:
                output = plan.output(plan.model(*batch.args, **batch.kwargs))
        except (CritinitError, DivergedError, LeakError):
            raise
        except Exception as error:
            if walker.observer_failed:
                raise
            raise ModelError(
                f"the model raised {type(error).__name__} in {walker.place}: {error}"
            ) from error
        walker.check_complete()
        walker.stop((output,))


def _leaves_behind(tensors: Tensors) -> Iterator[Tensor]:
    """Every leaf of the autograd graph that leads to ``tensors``."""
    stack = [t.grad_fn for t in tensors]
    seen = set(stack)
    while stack:
        node = stack.pop()
        if node is None:
            continue
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            yield leaf
        for child, _ in node.next_functions:
            if child not in seen:
                seen.add(child)
                stack.append(child)


def _pick(tensors: list[Tensor], positions: tuple[int, ...]) -> Tensors:
    try:
        return tuple(tensors[position] for position in positions)
    except IndexError:
        raise DivergedError from None


def _exchange(out: Any, positions: tuple[int, ...], tensors: Tensors) -> Any:
    """``out`` with its tensors at ``positions`` (counting tensors only) exchanged."""
    if isinstance(out, Tensor):
        return tensors[0]
    leaves, spec = tree_flatten(out)
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
    for position, tensor in zip(positions, tensors, strict=True):
        leaves[places[position]] = tensor
    return tree_unflatten(leaves, spec)
