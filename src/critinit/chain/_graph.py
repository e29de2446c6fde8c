"""The autograd graph between ``h^0`` and the output, and the tensors every path goes through."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from torch import Tensor
from torch.autograd.graph import Node

# A parameter that enters through one of these scales, shifts or extends the signal; it does not
# mix its components as the weight of a linear layer or convolution does.
_ELEMENTWISE = {"Add", "Sub", "Rsub", "Mul", "Div", "Addcmul", "Cat", "Stack", "Where", "Lerp"}
_ELEMENTWISE |= {"NativeLayerNorm", "FusedRmsNorm"}


@dataclass(eq=False)
class Vertex:
    """A node of the autograd graph on some path from ``h^0`` to the output."""

    node: Node
    position: int  # in topological order, the source first
    inputs: list[tuple[Vertex, int]] = field(default_factory=list)  # and which of its outputs
    parameters: list[Tensor] = field(default_factory=list)  # that enter here, however derived
    numbers_used: set[int] = field(default_factory=set)  # which of its outputs lead on

    @property
    def weights(self) -> list[Tensor]:
        """Parameters of two or more dimensions that mix the signal's components."""
        if self.node.name().partition("Backward")[0] in _ELEMENTWISE:
            return []
        return [p for p in self.parameters if p.ndim >= 2]


class Graph:
    """All vertices between the sources and the sink, in topological order."""

    def __init__(self, sources: Collection[Node], sink: Node) -> None:
        order = _postorder(sink)
        self.by_node: dict[Node, Vertex] = {}
        off_path_parameters: dict[Node, list[Tensor]] = {}
        for node in order:
            inputs, parameters = [], []
            for child, number in node.next_functions:
                if child is None:
                    continue
                if child in self.by_node:
                    inputs.append((self.by_node[child], number))
                else:
                    parameters += off_path_parameters[child]
            if node in sources or inputs:
                self.by_node[node] = Vertex(node, len(self.by_node), inputs, _distinct(parameters))
            else:
                variable = getattr(node, "variable", None)
                own = [] if variable is None else [variable]
                off_path_parameters[node] = _distinct(own + parameters)
        self.vertices = list(self.by_node.values())
        for vertex in self.vertices:
            for source, number in vertex.inputs:
                source.numbers_used.add(number)
        self.sink = self.by_node.get(sink)

    def is_separator(self, vertices: Collection[Vertex]) -> bool:
        """Whether every path from the sources to the sink meets one of ``vertices``."""
        return self.path_round(vertices) is None

    def path_round(self, avoid: Collection[Vertex]) -> list[Vertex] | None:
        """A path from a source to the sink that meets none of ``avoid``, or None."""
        if self.sink is None or self.sink in avoid:
            return None
        came_from: dict[Vertex, Vertex | None] = {self.sink: None}
        stack = [self.sink]
        while stack:
            vertex = stack.pop()
            if not vertex.inputs:
                path: list[Vertex] = []
                step: Vertex | None = vertex
                while step is not None:
                    path.append(step)
                    step = came_from[step]
                return path
            for child, _ in vertex.inputs:
                if child not in came_from and child not in avoid:
                    came_from[child] = vertex
                    stack.append(child)
        return None

    def cuts(self) -> list[Vertex]:
        """The vertices on every path, in order.

        In a topological order of vertices that all lie on some path, a vertex is on every path
        exactly when no edge jumps over it. One pass from the sink keeps the earliest start so far.
        """
        cuts: list[Vertex] = []
        jumps_from = len(self.vertices)
        for vertex in reversed(self.vertices):
            if vertex.position <= jumps_from and vertex.inputs:
                cuts.append(vertex)
            jumps_from = min([jumps_from, *(u.position for u, _ in vertex.inputs)])
        return cuts[::-1]

    def between(self, start: Collection[Vertex], end: Iterable[Vertex]) -> list[Vertex]:
        """The vertices that lead to ``end`` without passing ``start``, ``end`` included."""
        seen: set[Vertex] = set()
        stack = [v for v in end if v not in start]
        while stack:
            vertex = stack.pop()
            if vertex in seen:
                continue
            seen.add(vertex)
            stack += [u for u, _ in vertex.inputs if u not in start and u not in seen]
        return sorted(seen, key=lambda v: v.position)


def _postorder(sink: Node) -> list[Node]:
    """Every node that leads to ``sink``, each after all that lead to it."""
    order: list[Node] = []
    done: set[Node] = set()
    stack: list[tuple[Node, bool]] = [(sink, False)]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            order.append(node)
        elif node not in done:
            done.add(node)
            stack.append((node, True))
            stack += [(c, False) for c, _ in node.next_functions if c is not None and c not in done]
    return order


def _distinct(tensors: list[Tensor]) -> list[Tensor]:
    return list({id(t): t for t in tensors}.values())
