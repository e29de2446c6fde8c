"""The rule that cuts a network into blocks.

Read the network as a sequence of steps: a step leads from one tensor that every path goes through
to the next. The root is opened up into the modules and functions its ``forward`` calls, and so is
every module inside it, except that a module is *kept whole* if a skip connection or parallel
branch opens and closes within its own ``forward``, and with it every module of the same class. (A
module that strings more than four such pieces together, or that holds all the network's weights,
is a network of its own, and is opened.) Then:

* a module or skip connection kept whole is a block;
* a linear layer or convolution ends a block, unless a normalization follows: then the block runs
  on through the normalization and the activation behind it;
* a max-pool between two blocks is a block;
* everything else (activation, pooling, flatten, dropout, position embedding) goes with the block
  after it, or with the one before it if the block after it is kept whole or there is none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from critinit.chain._discovery import Call, Discovery
from critinit.chain._graph import Graph, Vertex

_LONGEST_BLOCK = 4  # skip connections in one module that is still a block, not a network
NORMALIZATIONS = (
    nn.modules.batchnorm._NormBase,
    nn.LayerNorm,
    nn.GroupNorm,
    nn.RMSNorm,
    nn.LocalResponseNorm,
)


@dataclass(frozen=True)
class Boundary:
    """Where one block ends: after the ``call``-th counted call, with these of its outputs."""

    call: int
    positions: tuple[int, ...]
    vertices: tuple[Vertex, ...]
    shapes: tuple[torch.Size, ...]


@dataclass(frozen=True)
class Step:
    """What leads from one boundary to the next possible one."""

    end: Boundary
    calls: list[Call]
    vertices: list[Vertex]
    keeps_shape: bool

    @property
    def last(self) -> nn.Module | None:
        return self.calls[-1].module if self.calls else None

    @property
    def has_weights(self) -> bool:
        return any(vertex.weights for vertex in self.vertices)

    @property
    def is_kept_whole(self) -> bool:
        parallel = any(len(vertex.inputs) > 1 for vertex in self.vertices)
        composite = self.last is not None and is_composite(self.last)
        return self.has_weights and (parallel or composite)

    @property
    def is_normalization(self) -> bool:
        learned = any(vertex.parameters for vertex in self.vertices)
        return isinstance(self.last, NORMALIZATIONS) or (learned and not self.has_weights)

    @property
    def is_max_pool(self) -> bool:
        return len(self.vertices) == 1 and self.vertices[0].node.name().startswith("MaxPool")


@dataclass(frozen=True)
class BrokenStep(Step):
    """The call in which the model raised: what it would have been."""

    @property
    def has_weights(self) -> bool:
        return bool(self.calls) and self.calls[-1].began_with_weight

    @property
    def is_kept_whole(self) -> bool:
        return self.has_weights and self.last is not None and is_composite(self.last)

    @property
    def is_normalization(self) -> bool:
        learned = self.last is not None and next(self.last.parameters(), None) is not None
        return isinstance(self.last, NORMALIZATIONS) or (learned and not self.has_weights)

    @property
    def is_max_pool(self) -> bool:
        return isinstance(self.last, nn.modules.pooling._MaxPoolNd)


class Opening:
    """Which module calls are opened up, and the counted calls this leaves: the coarse run."""

    def __init__(self, discovery: Discovery, graph: Graph, forced: Collection[Call] = ()) -> None:
        root = discovery.root
        forced = {root, *root.children[:1], *forced, *_ancestors(forced)}
        if discovery.inlet is not None:
            forced.update(_ancestors([discovery.inlet]))
        broken = discovery.broken_calls()
        forced |= _holders_of_everything(root, graph, bool(broken)) | _opened_while_broken(broken)
        cut_numbers = [v.node._sequence_nr() for v in graph.cuts()]
        whole = _classes_kept_whole(root, graph, forced)
        self.modules: set[nn.Module] = set()
        to_open = [root]
        while to_open:
            call = to_open.pop()
            if call.module is not None:
                self.modules.add(call.module)
            to_open += [
                child
                for child in call.children
                if child in forced
                or (
                    child.module is not None
                    and child.returned
                    and is_composite(child.module)
                    and type(child.module) not in whole
                    and any(child.contains(number, number) for number in cut_numbers)
                )
            ]
        self.calls = list(self._counted_calls(root))
        self.broken = next((c for c in broken if c.module not in self.modules), None)

    def _counted_calls(self, call: Call) -> Iterator[Call]:
        """What the opened modules call, in order; calls inside those are not looked at."""
        for child in call.children:
            if child.module in self.modules:
                yield from self._counted_calls(child)
            elif child.is_counted:
                yield child


def _ancestors(calls: Collection[Call]) -> set[Call]:
    return {ancestor for call in calls for ancestor in call.ancestors()}


def _holders_of_everything(root: Call, graph: Graph, is_broken: bool) -> set[Call]:
    """The module calls that each hold all of the network's weights, from the root inwards.

    Where the model raised, its graph is not whole; then by the parameters they own.
    """
    numbers = [v.node._sequence_nr() for v in graph.vertices if v.weights]
    holders: set[Call] = set()
    if not numbers:
        return holders
    holder: Call | None = root
    while holder is not None and not (is_broken and _lacks_some(holder, root)):
        holders.add(holder)
        holder = _child_containing(holder, min(numbers), max(numbers))
    return holders


def _lacks_some(call: Call, root: Call) -> bool:
    if call.module is None:
        return False
    model = root.children[0].module or call.module
    return len(list(call.module.parameters())) < len(list(model.parameters()))


def _opened_while_broken(broken: Sequence[Call]) -> set[Call]:
    """The unfinished modules that are strings of blocks rather than a block.

    Those are what leads to a child of the same class as a finished one, and sequences.
    """
    outer = 0
    for depth, (call, child) in enumerate(pairwise(broken)):
        kinds = {type(c.module) for c in call.children if c.returned and c.module is not None}
        if child.module is not None and is_composite(child.module) and type(child.module) in kinds:
            outer = depth + 1
    while outer < len(broken) and isinstance(broken[outer].module, nn.Sequential):
        outer += 1
    return set(broken[:outer])


def _child_containing(call: Call, begin: int, end: int) -> Call | None:
    for child in call.children:
        if child.module is not None and child.contains(begin, end):
            return child
    return None


def _classes_kept_whole(root: Call, graph: Graph, forced: set[Call]) -> set[type]:
    """Classes of the modules within whose own ``forward`` a skip connection opens and closes."""
    pieces: Counter[Call] = Counter()
    for piece in _parallel_pieces(graph):
        numbers = [vertex.node._sequence_nr() for vertex in piece]
        scope, inner = root, _child_containing(root, min(numbers), max(numbers))
        while inner is not None:
            scope, inner = inner, _child_containing(inner, min(numbers), max(numbers))
        pieces[scope] += any(vertex.weights for vertex in piece)
    return {
        type(scope.module)
        for scope, count in pieces.items()
        if scope not in forced and count <= _LONGEST_BLOCK
    }


def _parallel_pieces(graph: Graph) -> Iterator[list[Vertex]]:
    """What lies between neighbouring cuts, where that is more than one plain operation."""
    cuts = graph.cuts()
    for start, end in zip([None, *cuts], cuts, strict=False):
        if len(end.inputs) > 1:
            yield graph.between([] if start is None else [start], [end])


def possible_boundaries(opening: Opening, graph: Graph) -> list[Boundary]:
    """Every place where a coarse call ends in a tensor, or tuple of them, no path goes round."""
    cuts = {v for v in graph.cuts() if len(v.numbers_used) <= 1}
    found: list[Boundary] = []
    seen: set[Vertex] = set()
    for index, call in enumerate(opening.calls):
        boundary = boundary_after(index, call, graph)
        if boundary is None or not seen.isdisjoint(boundary.vertices):
            continue
        single = len(boundary.vertices) == 1 and boundary.vertices[0] in cuts
        if single or (len(boundary.vertices) > 1 and graph.is_separator(boundary.vertices)):
            seen.update(boundary.vertices)
            found.append(boundary)
    return found


def boundary_after(index: int, call: Call, graph: Graph) -> Boundary | None:
    """The boundary made of all outputs of ``call`` that lead to the network's output."""
    live = [
        (position, graph.by_node[output.node], output.shape)
        for position, output in enumerate(call.outputs)
        if output.node is not None
        and output.node in graph.by_node
        and graph.by_node[output.node].numbers_used <= {output.number}
    ]
    if not live:
        return None
    positions, vertices, shapes = zip(*live, strict=True)
    if len(set(vertices)) < len(vertices):
        return None  # the same tensor twice: two leaves would lose what links them
    return Boundary(index, positions, vertices, shapes)


def steps_between(boundaries: Sequence[Boundary], opening: Opening, graph: Graph) -> list[Step]:
    """The steps that lead to each boundary from the one before it."""
    steps: list[Step] = []
    start: tuple[Vertex, ...] = ()
    shapes: tuple[torch.Size, ...] | None = None
    first = 0
    for end in boundaries:
        steps.append(
            Step(
                end,
                opening.calls[first : end.call + 1],
                graph.between(start, end.vertices),
                shapes == end.shapes,
            )
        )
        start, shapes, first = end.vertices, end.shapes, end.call + 1
    return steps


def group(steps: Sequence[Step]) -> tuple[list[list[Step]], list[Step]]:
    """Join steps into blocks by the rule at the top of this file, and return what is left over."""
    blocks: list[list[Step]] = []
    glue: list[Step] = []
    normalized = after_weight = False  # what the last block may still be extended by
    for step in steps:
        extends = not (glue or step.has_weights or step.is_max_pool) and (
            (after_weight and step.is_normalization)
            or (normalized and (step.is_normalization or step.keeps_shape))
        )
        if step.is_kept_whole and blocks:
            blocks[-1] += glue
            blocks.append([step])
        elif step.has_weights or (step.is_max_pool and blocks and not glue):
            blocks.append([*glue, step])
        elif extends:
            blocks[-1].append(step)
        else:
            glue.append(step)
            after_weight = normalized = False
            continue
        normalized = extends
        after_weight = step.has_weights and not step.is_kept_whole
        glue = []
    return blocks, glue


def block_label(steps: Sequence[Step], owner: Callable[[Tensor], str | None]) -> str:
    """The name of the module that holds the block's weights, or else of what ends the block."""
    step = next((s for s in steps if s.has_weights), steps[-1])
    used = {id(p) for v in step.vertices for p in v.weights}
    holders = [c for c in step.calls if c.module is not None and _holds(c.module, used)]
    if len(holders) == 1:
        return holders[0].label
    owners = [owner(p) for v in step.vertices for p in v.weights or v.parameters]
    names = list(dict.fromkeys(name for name in owners if name is not None))
    if names:
        return names[0] if len(names) == 1 else f"{names[0]}..{names[-1]}"
    return step.calls[-1].label if step.calls else "output"


def is_composite(module: nn.Module) -> bool:
    """Whether it is made of other modules; a parametrization of its weight is no such part."""
    return any(name != "parametrizations" for name, _ in module.named_children())


def _holds(module: nn.Module, parameters: Collection[int]) -> bool:
    return any(id(p) in parameters for p in module.parameters())
