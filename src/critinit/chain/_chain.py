"""A network as the chain ``h^0 → h^1 → … → h^{L+1}`` of its blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from torch import Tensor, nn

from critinit.chain._discovery import without_activations
from critinit.chain._inputs import (
    Batch,
)
from critinit.chain._tape import Tape
from critinit.chain._walk import Observer, Plan, Tensors, walk
from critinit.errors import BlockError, CritinitError, ModelError


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
