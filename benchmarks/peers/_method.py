"""What every method is: one call that initializes a model in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

Batches = Sequence[tuple[Tensor, Tensor]]  # of images and labels
Initialize = Callable[[nn.Module, Batches, int], object]


@dataclass(frozen=True)
class Method:
    """An initialization, as somebody would use it who reads its documentation.

    Args:
        name: As it stands in the tables.
        about: What is run, in a few words.
        init: Called with the model, the batches it may use, and a number of steps.
        steps: How many it takes by default, one batch after the other; 0 if it does not iterate.
        aim: What it is for, and so what is checked: ``"J"`` is 1, ``"variance"`` is 1 behind every
            layer, or nothing but that it runs, changes something and leaves the rest alone.
    """

    name: str
    about: str
    init: Initialize
    steps: int = 0
    aim: str = ""
