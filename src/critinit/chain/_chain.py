"""A network as the chain ``h^0 → h^1 → … → h^{L+1}`` of its blocks."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from torch import Tensor, nn
from torch.autograd.graph import Node

from critinit._state import gradients_for, untouched
from critinit.chain._discovery import Call, Discovery, discover, without_activations
from critinit.chain._graph import Graph, Vertex
from critinit.chain._inputs import (
    Batch,
    check_batch,
    check_model,
    first_tensor,
    read_batches,
    uses_batch_statistics,
)
from critinit.chain._partition import (
    Boundary,
    BrokenStep,
    Opening,
    Step,
    block_label,
    boundary_after,
    group,
    is_composite,
    possible_boundaries,
    steps_between,
)
from critinit.chain._tape import Tape
from critinit.chain._walk import DivergedError, LeakError, Observer, Plan, Stop, Tensors, walk
from critinit.errors import BlockError, CritinitError, ModelError, NotDifferentiableError

Blocks = str | Sequence[str] | Callable[[str, nn.Module], bool] | None
Output = Callable[[Any], Tensor]
_TINY = 16  # times smaller than another input: not what the chain follows


@dataclass(frozen=True)
class Block:
    """One block of the chain: it leads from ``h^l`` to ``h^{l+1}``."""

    name: str
    parameters: dict[str, Tensor]


class Chain:
    """The blocks of a model, found by `trace`.

    ``len(chain)`` blocks, named ``chain.names``; ``chain[i].parameters`` are the model's own
    tensors. ``chain.run(i, h)`` computes ``h^{i+1}`` from ``h^i`` alone.
    """

    def __init__(self, plan: Plan, blocks: Sequence[Block]) -> None:
        self.model = plan.model
        self.blocks = tuple(blocks)
        self._plan = plan
        self._tapes: list[Tape] = []

    @property
    def names(self) -> list[str]:
        return [block.name for block in self.blocks]

    @property
    def is_complete(self) -> bool:
        """False if the model raised while it was traced: the chain then ends before that."""
        return self._plan.complete

    @property
    def opened(self) -> frozenset[nn.Module]:
        """The modules whose inside is part of the chain, rather than one of its calls."""
        return self._plan.opened

    def __len__(self) -> int:
        return len(self.blocks)

    def __getitem__(self, index: int | str) -> Block:
        return self.blocks[self._position(index)]

    def _position(self, index: int | str) -> int:
        """The number of a block that is given by its number or name."""
        if isinstance(index, str) and index in self.names:
            return self.names.index(index)
        if isinstance(index, int) and -len(self) <= index < len(self):
            return index % len(self)
        raise BlockError(
            f"there is no block {index!r}: the chain has {len(self)} blocks, {self.names[0]!r} to "
            f"{self.names[-1]!r}."
        )

    def __iter__(self) -> Iterator[Block]:
        return iter(self.blocks)

    def __repr__(self) -> str:
        lines = [f"  ({i}) {name}" for i, name in enumerate(self.names)]
        return "\n".join([f"Chain of {len(self)} blocks of {type(self.model).__name__}", *lines])

    def merge(self, span: int) -> Chain:
        """The chain of every ``span``-th tensor: its blocks are ``span`` of these in a row.

        The last block is shorter where ``span`` does not divide the length.
        """
        return self if span == 1 else self._regrouped([*range(0, len(self), span), len(self)])

    def cut(self, start: int, stop: int) -> Chain:
        """Blocks ``0 … start-1``, ``start … stop-1`` and the rest, each run as one block."""
        return self._regrouped(sorted({0, start, stop, len(self)}))

    def joined(self, start: int, stop: int) -> Chain:
        """Blocks ``start … stop-1`` as one."""
        inside = range(start + 1, min(stop, len(self)))
        return self._regrouped([b for b in range(len(self) + 1) if b not in inside])

    def _regrouped(self, bounds: Sequence[int]) -> Chain:
        runs = [self.blocks[a:b] for a, b in pairwise(bounds)]
        blocks = [
            Block(
                run[0].name if len(run) == 1 else f"{run[0].name} … {run[-1].name}",
                {name: p for block in run for name, p in block.parameters.items()},
            )
            for run in runs
        ]
        stops = tuple(self._plan.stops[b - 1] for b in bounds[1:] if b <= len(self._plan.stops))
        return Chain(replace(self._plan, stops=stops), blocks)

    def walk(self, batch: Batch, observer: Observer, record: bool = False) -> None:
        """Run the model once and show every block to ``observer``; see `critinit.chain._walk`."""
        walk(self._plan, batch, observer, record)

    def run(self, index: int | str, h: Tensor | Tensors) -> Tensor | Tensors:
        """Compute ``h^{index+1}`` from ``h^index`` at the cost of this one block.

        ``h`` has the shape it had in the traced run; where a boundary holds several tensors, a
        tuple goes in or comes out. Gradients flow through, and module buffers (BatchNorm
        statistics) are written, as in any forward pass. What else the block takes from earlier in
        the run (a mask, the indices of a pooling, a condition) is what it was in the traced run.
        """
        position = self._position(index)
        if not self._tapes:
            raise BlockError(
                "this chain was not recorded. Blocks are run one by one on the chain that "
                "critinit.trace returns."
            )
        try:
            out = self._tapes[position].replay((h,) if isinstance(h, Tensor) else tuple(h))
        except CritinitError:
            raise
        except Exception as error:
            raise ModelError(
                f"block {position} ({self.names[position]}) raised {type(error).__name__}: {error}"
            ) from error
        return out[0] if len(out) == 1 else out

    def _record(self, batch: Batch) -> None:
        recorder = _Recorder()
        with without_activations():
            self.walk(batch, recorder, record=True)
        self._tapes = recorder.tapes


class _Recorder:
    """Keeps every block's tape."""

    def __init__(self) -> None:
        self.tapes: list[Tape] = []

    def enter(self, h: Tensors) -> Tensors:
        return tuple(t.detach().requires_grad_() for t in h)

    def leave(self, index: int, h: Tensors, out: Tensors, tape: Tape | None) -> Tensors:
        assert tape is not None
        self.tapes.append(tape)
        return out


def trace(
    model: nn.Module, inputs: object, blocks: Blocks = None, output: Output | None = None
) -> Chain:
    """Find the blocks of ``model``.

    Args:
        model: Any feed-forward network. It is left exactly as it was.
        inputs: As for `critinit.measure`; of several batches the first is used.
        blocks: None to find them (the rule is in ``docs/blocks.md``); the name of a container
            whose children are the blocks; the names of the modules that end a block; or a
            function of name and module that says which do.
        output: Picks the output tensor from what the model returns; by default the first
            floating tensor.

    >>> import torch, critinit
    >>> from torch import nn
    >>> model = nn.Sequential(nn.Linear(9, 8), nn.Tanh(), nn.Linear(8, 8), nn.ReLU())
    >>> chain = critinit.trace(model, torch.randn(4, 9))
    >>> chain.names
    ['0', '2']
    >>> chain.run(1, torch.randn(4, 8)).shape
    torch.Size([4, 8])
    """
    model = check_model(model)
    batch = next(read_batches(model, inputs))
    check_batch(model, batch)
    with untouched(model, seed=0):
        return find_and_walk(
            model, batch, blocks, output or first_tensor, lambda chain: chain._record(batch)
        )


def find_and_walk(
    model: nn.Module, batch: Batch, blocks: Blocks, output: Output, walk: Callable[[Chain], None]
) -> Chain:
    """Find the chain on a few examples and ``walk`` it; on all of them if it then diverges.

    Where a tensor from before a block turns up behind it again, by a way that no call shows, the
    blocks between are joined.
    """
    for whole_batch in (False, True):
        chain = find_chain(model, batch, blocks, output, whole_batch)
        while True:
            try:
                walk(chain)
            except LeakError as leak:
                chain = chain.joined(leak.start, leak.stop)
                continue
            except DivergedError:
                break
            return chain
    raise ModelError(
        f"{type(model).__name__} runs other layers each time it is called (layer drop?), so it has "
        "no fixed chain of blocks. Call model.eval(), or switch that randomness off."
    )


def find_chain(
    model: nn.Module, batch: Batch, blocks: Blocks, output: Output, whole_batch: bool
) -> Chain:
    """Discover the model on a few examples of ``batch`` and cut it into blocks.

    A few examples make the same calls as many do; where they do not, the walk diverges.
    """
    names = {module: name for name, module in model.named_modules()}
    if not any(p.is_floating_point() for p in model.parameters()):
        raise ModelError(
            f"{type(model).__name__} has no weights of real numbers, so there is nothing to "
            "measure. Layers in a plain list are not seen (use nn.ModuleList); complex and "
            "quantised weights are not supported."
        )
    with gradients_for(model.parameters()):
        few = batch if whole_batch else batch.head(_examples_needed(model))
        found = discover(model, names, few, output)
        if found.failure is not None and few is not batch:
            found = discover(model, names, batch, output)
    return _Cutter(model, found, _main_input(found)).chain(blocks, output)


def _examples_needed(model: nn.Module) -> int:
    """The fewest examples that run through every layer: BatchNorm in training wants two."""
    norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    return 2 if any(uses_batch_statistics(norm) for norm in norms) else 1


@dataclass(frozen=True)
class _Start:
    """Where the chain begins: a floating input, or (position None) the inlet."""

    graph: Graph
    position: int | None


def _main_input(found: Discovery) -> _Start:
    """The input that the most weights act on.

    Not one that is tiny beside another, such as the time of a diffusion model; of equals, the one
    whose path has the most tensors that nothing goes round (features before an adjacency matrix).
    """
    reaching = []
    for i, node in enumerate([*found.sources, *found.inlet_source] if found.sink else []):
        assert found.sink is not None
        graph = Graph([node], found.sink)
        if graph.sink is not None:
            reaching.append((i, graph))
    largest = max((found.sizes[i] for i, _ in reaching), default=0)
    starts: list[tuple[tuple[int, int], _Start]] = []
    for i, graph in reaching:
        if found.sizes[i] * _TINY >= largest:
            weights = {id(p) for vertex in graph.vertices for p in vertex.weights}
            position = i if i < len(found.sources) else None
            starts.append(((len(weights), len(graph.cuts())), _Start(graph, position)))
    if starts:
        return max(starts, key=lambda start: start[0])[1]
    if found.failure is not None:
        raise _raised_early(found.failure)
    if found.sink is None:
        raise NotDifferentiableError(
            "the output has no derivative: it was computed without gradients (torch.no_grad, "
            "detach, argmax, numpy) somewhere in the model. Remove that, or pass output= a "
            "function that picks a differentiable tensor."
        )
    raise NotDifferentiableError(
        "the output does not depend on the input in a differentiable way: no path leads from one "
        "to the other. Look for a detach(), a rounding, or an input that is not used."
    )


class _Cutter:
    """Turns a discovery into a chain, by the rule or at the places the user names."""

    def __init__(self, model: nn.Module, found: Discovery, start: _Start) -> None:
        self.model = model
        self.found = found
        self.graph = start.graph
        self.start = start.position
        self.parameters = dict(model.named_parameters())
        self.parameter_names = {id(p): name for name, p in self.parameters.items()}

    def chain(self, blocks: Blocks, output: Output) -> Chain:
        if blocks is None:
            opening, groups = self._by_rule()
        else:
            opening, groups = self._by_choice(blocks)
        ends = [steps[-1].end for steps in groups]
        if self.found.failure is None:
            ends = ends[:-1]
        plan = Plan(
            model=self.model,
            names={module: name for name, module in self.model.named_modules()},
            output=output,
            opened=frozenset(opening.modules),
            labels=tuple(call.label for call in opening.calls),
            input_positions=self._joining_inputs(groups[0][-1].end),
            inlet=self._inlet(opening),
            stops=tuple(Stop(end.call, end.positions) for end in ends),
            written=tuple(self.found.written),
            complete=self.found.failure is None,
        )
        names = _unique([block_label(steps, self._owner) for steps in groups])
        parts = [
            Block(name, self._parameters(steps)) for name, steps in zip(names, groups, strict=True)
        ]
        return Chain(plan, parts)

    def _by_rule(self) -> tuple[Opening, list[list[Step]]]:
        opening = Opening(self.found, self.graph)
        boundaries = self._ended(possible_boundaries(opening, self.graph), opening)
        steps = steps_between(boundaries, opening, self.graph)
        if self.found.failure is not None:
            return opening, self._finished_before(self.found.failure, opening, steps)
        blocks, rest = group(steps)
        if not blocks:
            return opening, [rest]
        return opening, [*blocks[:-1], blocks[-1] + rest]

    def _finished_before(
        self, failure: Exception, opening: Opening, steps: list[Step]
    ) -> list[list[Step]]:
        """The blocks that were certainly complete when the model raised."""
        broken = [] if opening.broken is None else [opening.broken]
        last = BrokenStep(steps[-1].end, broken, [], keeps_shape=True) if steps else None
        blocks, rest = group([*steps, last] if last is not None else [])
        if last in rest and self._may_be_kept_whole_later():
            blocks = blocks[:-1]  # what came after it may belong to it
        blocks = [block for block in blocks if last not in block]
        if not blocks:
            raise _raised_early(failure)
        return blocks

    def _may_be_kept_whole_later(self) -> bool:
        called = {call.module for call in self.found.root.walk()}
        return any(
            is_composite(module) and not isinstance(module, nn.Sequential | nn.ModuleList)
            for module in self.model.modules()
            if module not in called
        )

    def _by_choice(self, blocks: Blocks) -> tuple[Opening, list[list[Step]]]:
        calls = self._chosen_calls(blocks)
        opening = Opening(self.found, self.graph, [a for call in calls for a in call.ancestors()])
        boundaries = []
        for call in calls:
            boundary = self._chosen_boundary(call, opening, refuse=not callable(blocks))
            if boundary is not None:
                boundaries.append(boundary)
        if not boundaries:
            raise BlockError(
                "blocks= accepts no module that every path from input to output goes through."
            )
        boundaries.sort(key=lambda boundary: boundary.call)
        steps = steps_between(self._ended(boundaries, opening), opening, self.graph)
        return opening, [[step] for step in steps]

    def _chosen_calls(self, blocks: Blocks) -> list[Call]:
        modules = dict(self.model.named_modules())
        named = isinstance(blocks, list | tuple | set) and all(isinstance(b, str) for b in blocks)
        if not (named or isinstance(blocks, str) or _is_predicate(blocks)):
            raise BlockError(
                f"blocks={blocks!r} is not understood. Give the name of a container, a list of "
                "module names, or a function of name and module."
            )
        if callable(blocks):
            chosen = {m for name, m in modules.items() if name and blocks(name, m)}
        elif isinstance(blocks, str):
            chosen = set(_named(modules, blocks).children())
            if not chosen:
                raise BlockError(
                    f"blocks={blocks!r} has no children to be blocks. Give the name of a "
                    "container, or a list of names."
                )
        else:
            chosen = {_named(modules, name) for name in blocks or ()}
        calls = [c for c in self.found.root.walk() if c.module in chosen and c.returned]
        if not callable(blocks) and not isinstance(blocks, str):
            called = {call.module for call in calls}
            for name in blocks or ():
                if modules[name] not in called:
                    raise BlockError(f"blocks: {name!r} is never called when the model runs.")
        return calls

    def _chosen_boundary(self, call: Call, opening: Opening, refuse: bool) -> Boundary | None:
        """Where the coarse run holds what ``call`` returned, if every path goes through it."""
        wanted = boundary_after(0, call, self.graph)
        vertices = wanted.vertices if wanted is not None else ()
        if wanted is None or not self.graph.is_separator(vertices):
            if not refuse:
                return None
            raise BlockError(
                f"blocks: {call.label!r} is not on every path from input to output. "
                f"{self._detour(vertices)} Name a module that all paths go through."
            )
        for index, coarse in enumerate(opening.calls):
            boundary = boundary_after(index, coarse, self.graph)
            if boundary is not None and set(boundary.vertices) == set(vertices):
                return boundary
        if not refuse:
            return None
        raise BlockError(
            f"blocks: the output of {call.label!r} is not a tensor that the model passes on as it "
            "is, so no block can end there."
        )

    def _detour(self, avoid: Sequence[Vertex]) -> str:
        """The path that goes round, in the words of the call tree."""
        path = self.graph.path_round(avoid) or []
        labels: list[str] = []
        for vertex in path:
            label = self._made_by(vertex.node)
            if label and (not labels or labels[-1] != label):
                labels.append(label)
        shown = labels if len(labels) <= 8 else [*labels[:4], "…", *labels[-3:]]
        return f"This path goes round it: input → {' → '.join(shown)} → output."

    def _made_by(self, node: Node) -> str:
        """The innermost named module or function whose call made this node."""
        number = node._sequence_nr()
        label, call = "", self.found.root
        while True:
            inner = next((c for c in call.children if c.contains(number, number)), None)
            if inner is None:
                return label
            label = inner.label if inner.module is not None or not label else label
            call = inner

    def _ended(self, boundaries: list[Boundary], opening: Opening) -> list[Boundary]:
        """With the output as last boundary."""
        sink = self.graph.sink
        assert sink is not None
        kept = [b for b in boundaries if sink not in b.vertices]
        if self.found.failure is not None:
            return boundaries
        last = next((b for b in boundaries if sink in b.vertices), None)
        shapes = last.shapes if last is not None else ()
        return [*kept, Boundary(len(opening.calls) - 1, (0,), (sink,), shapes)]

    def _joining_inputs(self, first: Boundary) -> tuple[int, ...]:
        """The floating inputs that are part of ``h^0``: those that join before ``h^1``.

        Inputs that enter later, such as a condition or a float mask, are held fixed.
        """
        assert self.found.sink is not None
        if self.start is None:
            return ()
        if len(self.found.sources) == 1:
            return (self.start,)
        everything = Graph(self.found.sources, self.found.sink)
        end = [everything.by_node[vertex.node] for vertex in first.vertices]
        assert everything.sink is not None
        late = set(everything.between(end, [everything.sink]))
        return tuple(
            position
            for position, source in enumerate(self.found.sources)
            if source in everything.by_node and everything.by_node[source] not in late
        )

    def _inlet(self, opening: Opening) -> Stop | None:
        if self.start is not None or self.found.inlet is None:
            return None
        within = {self.found.inlet, *self.found.inlet.ancestors()}
        index = next(i for i, call in enumerate(opening.calls) if call in within)
        return Stop(index, (0,))

    def _owner(self, parameter: Tensor) -> str | None:
        """The module a parameter belongs to, also behind a parametrization."""
        name = self.parameter_names.get(id(parameter))
        if name is None:
            return None
        module = name.split(".parametrizations.")[0] if ".parametrizations." in name else name
        return module.rpartition(".")[0] or module if module == name else module

    def _parameters(self, steps: Sequence[Step]) -> dict[str, Tensor]:
        used = {id(p) for s in steps for v in s.vertices for p in v.parameters}
        return {name: p for name, p in self.parameters.items() if id(p) in used}


def _raised_early(failure: Exception) -> ModelError:
    error = ModelError(
        f"the model raised {type(failure).__name__} before any block was finished: {failure}"
    )
    error.__cause__ = failure
    return error


def _named(modules: dict[str, nn.Module], name: str) -> nn.Module:
    if name in modules:
        return modules[name]
    near = difflib.get_close_matches(name, modules, n=3)
    hint = f"Did you mean {' or '.join(map(repr, near))}?" if near else "See model.named_modules()."
    raise BlockError(f"blocks: the model has no module {name!r}. {hint}")


def _is_predicate(blocks: Blocks) -> bool:
    return callable(blocks) and not isinstance(blocks, type)


def _unique(names: list[str]) -> list[str]:
    seen: Counter[str] = Counter()
    unique = []
    for name in names:
        seen[name] += 1
        unique.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return unique
