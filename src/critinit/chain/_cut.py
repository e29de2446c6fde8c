"""From what one run showed to a chain: by the rule, or at the places the user names."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.autograd.graph import Node

from critinit.chain._chain import Block, Chain
from critinit.chain._discovery import Call, Discovery
from critinit.chain._graph import Graph, Vertex
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
from critinit.chain._walk import Plan, Stop
from critinit.errors import BlockError, ModelError, NotDifferentiableError

Blocks = str | Sequence[str] | Callable[[str, nn.Module], bool] | None
Output = Callable[[Any], Tensor]
_TINY = 16  # times smaller than another input: not what the chain follows


def cut(model: nn.Module, found: Discovery, blocks: Blocks, output: Output) -> Chain:
    """The chain of the blocks of ``model``."""
    return _Cutter(model, found, _main_input(found)).chain(blocks, output)


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
