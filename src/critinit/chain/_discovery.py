"""Run the model once and learn how its output came about.

The result is the tree of calls (modules and torch functions, as they were made) and the autograd
graph that leads from the output back to ``h^0``. Activations are not kept: the graph is built with
its saved tensors thrown away, so a deep model costs no more memory than its largest layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch._C._autograd import _get_sequence_nr
from torch.autograd.graph import Node, saved_tensors_hooks

from critinit._state import module_state
from critinit.chain._calls import CallWatcher, tensors_in
from critinit.chain._inputs import Batch
from critinit.chain._sketch import Sketch, ValuesNeededError, truly
from critinit.errors import CritinitError, NotDifferentiableError

FunctionCall = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]


@dataclass(eq=False)
class Call:
    """One call: of a module (``module`` is set) or of a torch function."""

    label: str
    module: nn.Module | None
    parent: Call | None
    begin: int  # autograd sequence numbers: nodes made during the call lie in [begin, end)
    end: int = -1
    returned: bool = False
    outputs: list[Output] = field(default_factory=list)
    children: list[Call] = field(default_factory=list)
    mutates_only: bool = False
    began_with_weight: bool = False  # known of calls that raised

    @property
    def is_counted(self) -> bool:
        """Calls that neither return a tensor nor write one (such as ``x.shape``) do not count."""
        return bool(self.outputs) or self.mutates_only

    def ancestors(self) -> Iterator[Call]:
        call = self.parent
        while call is not None:
            yield call
            call = call.parent

    def contains(self, begin: int, end: int) -> bool:
        """Whether all autograd nodes numbered ``begin`` to ``end`` were made during this call."""
        return self.begin <= begin and (end < self.end or not self.returned)

    def walk(self) -> Iterator[Call]:
        """This call and every call made within it, in the order they were made."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True)
class Output:
    """A tensor that a call returned: where it stands in the autograd graph, and its shape."""

    node: Node | None
    number: int
    shape: torch.Size


@dataclass
class Discovery:
    """What one run showed: the calls, and where ``h^0`` and the output stand in the graph."""

    root: Call  # stands for the whole run; the model's own call is its first child
    sources: list[Node]  # of the floating inputs
    inlet_source: list[Node]  # of the first learned tensor made from integer inputs, if any
    sizes: list[int]  # of the tensors at those sources
    sink: Node | None
    inlet: Call | None  # the call that made it
    failure: Exception | None
    written: list[nn.Parameter]  # by the model itself while it ran

    def broken_calls(self) -> list[Call]:
        """The calls that were under way when the model raised, from the outermost inwards."""
        if self.failure is None:
            return []
        return [call for call in self.root.walk() if not call.returned and call is not self.root]


class Discoverer(CallWatcher):
    """Records every call. ``integer_inputs`` are followed until they first become a float."""

    def __init__(
        self,
        names: dict[nn.Module, str],
        written: WrittenParameters,
        integer_inputs: list[Tensor],
        call: FunctionCall,
    ) -> None:
        super().__init__(names)
        self.call = call
        self.names = names
        self.written = written
        self.root = Call("", None, None, begin=0)
        self.current = self.root
        self.inlet: Call | None = None
        self.leaves: list[Tensor] = []
        self._await_inlet = bool(integer_inputs)
        self._from_integers = {id(t): t for t in integer_inputs}

    def on_module(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        label = self.names.get(module) or type(module).__name__
        run: Callable[[], Any] = lambda: self.forward(module, args, kwargs)  # noqa: E731
        return self._record(label, module, run, args, kwargs)

    def on_function(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        self.written.before(func, args)
        label = getattr(func, "__name__", str(func))
        return self._record(label, None, lambda: self.call(func, args, kwargs), args, kwargs)

    def _record(
        self,
        label: str,
        module: nn.Module | None,
        run: Callable[[], Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        call = Call(label, module, self.current, _get_sequence_nr())
        self.current.children.append(call)
        outer, self.current = self.current, call
        try:
            out = run()
        except BaseException:
            call.began_with_weight = _has_weight(module, args, kwargs)
            raise
        finally:
            self.current = outer
        self.muted = True
        try:
            return self._finish(call, out, tensors_in((args, kwargs)))
        finally:
            self.muted = False

    def _finish(self, call: Call, out: Any, given: list[Tensor]) -> Any:
        tensors = tensors_in(out)
        if self._await_inlet:
            out, tensors = self._watch_integers(call, out, tensors, given)
        if isinstance(out, Tensor) and out.requires_grad and any(out is t for t in given):
            # The call handed back what it was given (in-place, identity). A copy shows whether
            # the model goes on with the returned tensor; only then can a block end here.
            out = out.clone()
            tensors = [out]
        call.outputs = [Output(t.grad_fn, t.output_nr, t.shape) for t in tensors]
        call.mutates_only = out is None
        call.end = _get_sequence_nr()
        call.returned = True
        return out

    def _watch_integers(
        self, call: Call, out: Any, tensors: list[Tensor], given: list[Tensor]
    ) -> tuple[Any, list[Tensor]]:
        """``h^0`` of a model with integer inputs: the first float they lead to that is learned."""
        if any(id(t) in self._from_integers for t in given):
            self._from_integers.update({id(t): t for t in tensors})
            if isinstance(out, Tensor) and out.requires_grad and out.is_floating_point():
                leaf = out.detach().requires_grad_()
                self.leaves.append(leaf)
                self.inlet = call
                self._await_inlet = False
                self._from_integers.clear()
                out = leaf.clone()
                tensors = [out]
        return out, tensors


def discover(
    model: nn.Module,
    names: dict[nn.Module, str],
    batch: Batch,
    select: Callable[[Any], Tensor],
    sketch: bool,
) -> Discovery:
    """Run ``model`` on ``batch`` and return the call tree and the graph's two ends.

    A model that raises in the middle is not an error yet: the graph then ends with the last tensor
    that was computed, so that everything before the failure can still be measured. A ``sketch``
    computes no products, unless the model needs their values.
    """
    for call in (Sketch(), truly) if sketch else (truly,):
        with suppress(ValuesNeededError, ActivationsNeededError), without_activations():
            return _discover(model, names, batch, select, call)
    return _discover(model, names, batch, select, truly)  # it differentiates something itself


def _discover(
    model: nn.Module,
    names: dict[nn.Module, str],
    batch: Batch,
    select: Callable[[Any], Tensor],
    call: FunctionCall,
) -> Discovery:
    failure: Exception | None = None
    output: Tensor | None = None
    written = WrittenParameters(model)
    with written.kept(), module_state(model), torch.enable_grad():
        batch, leaves = batch.outside_inference().with_leaves()
        watcher = Discoverer(names, written, batch.integers(), call)
        try:
            with watcher:
                output = _checked_output(select(model(*batch.args, **batch.kwargs)))
        except (ValuesNeededError, ActivationsNeededError, CritinitError):
            raise
        except Exception as error:
            failure = error
        sources = [_accumulator(leaf) for leaf in leaves]
        inlet = [_accumulator(leaf) for leaf in watcher.leaves]
    sizes = [leaf.numel() for leaf in [*leaves, *watcher.leaves]]
    sink = output.grad_fn if output is not None else _last_node(watcher.root)
    return Discovery(
        watcher.root, sources, inlet, sizes, sink, watcher.inlet, failure, list(written.values)
    )


def _checked_output(output: object) -> Tensor:
    if isinstance(output, Tensor):
        return output
    raise NotDifferentiableError(
        f"output= returned a {type(output).__name__}. Let it return the output tensor."
    )


def _accumulator(leaf: Tensor) -> Node:
    """The node that stands for a leaf in the autograd graph."""
    node = leaf.view_as(leaf).grad_fn
    assert node is not None
    accumulator = node.next_functions[0][0]
    assert accumulator is not None
    return accumulator


def _last_node(root: Call) -> Node | None:
    """The graph's end where the model raised: the last tensor that any call returned."""
    nodes = [o.node for call in root.walk() for o in call.outputs if o.node is not None]
    return max(nodes, key=lambda node: node._sequence_nr(), default=None)


def _has_weight(module: nn.Module | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a call would have brought in a weight, and with it begun a block."""
    given = tensors_in((args, kwargs)) if module is None else list(module.parameters())
    return any(p.ndim >= 2 for p in given if isinstance(p, nn.Parameter))


class ActivationsNeededError(RuntimeError):
    """A derivative was taken through a graph that keeps no activations."""


def without_activations() -> saved_tensors_hooks:
    """Inside, autograd records what leads to what, but keeps no tensors for it."""
    return saved_tensors_hooks(_forget, _forgotten)


def _forget(tensor: Tensor) -> None:
    return None


def _forgotten(packed: None) -> Tensor:
    raise ActivationsNeededError("this graph keeps no activations")


class WrittenParameters:
    """The parameters that a model itself overwrites while it runs, with their values before."""

    def __init__(self, model: nn.Module) -> None:
        self._by_storage = {p.data_ptr(): p for p in model.parameters()}
        self.values: dict[nn.Parameter, tuple[Tensor, Tensor]] = {}

    def before(self, func: Callable[..., Any], args: tuple[Any, ...]) -> None:
        """Note the value of a parameter that ``func`` is about to write to."""
        name = getattr(func, "__name__", "")
        writes = name in {"__set__", "__setitem__", "copy_"} or name.strip("_") + "_" == name
        if writes and args and isinstance(args[0], Tensor):
            parameter = self._by_storage.get(args[0].data_ptr())
            if parameter is not None and parameter not in self.values:
                self.values[parameter] = parameter.data, parameter.data.clone()

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Put the values back afterwards."""
        try:
            yield
        finally:
            for parameter, (data, value) in self.values.items():
                parameter.data = data
                data.copy_(value)
