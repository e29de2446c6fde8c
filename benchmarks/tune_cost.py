"""What tuning costs beside one training step: writes ``docs/tuning-cost.md``.

Every figure is a ratio to one forward and backward pass of the same model and batch in this run.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torchvision
from cost import forward_backward, seconds
from models import MODELS, resmlp_plain
from torch import Tensor, nn

import critinit
from critinit.solvers._problem import Problem, Solution

PAGE = Path(__file__).parents[1] / "docs" / "tuning-cost.md"
REPEATS = 5
JLL, JKL = critinit.JLL(), critinit.JKL(0.05)
MARKS = {  # of the sweep by J alone and by J and K
    "MLP 10×500": (3.0, 6.0),
    "VGG19_BN, γ and β": (3.5, 8.0),
    "ResMLP-S12, plain": (8.0, 12.0),
    "ViT-tiny": (4.0, 8.0),
}


class _Cost:
    """A solver that times another one's work on the same problem, over and over."""

    def __init__(self, solver: Any, repeats: int) -> None:
        self.solver = solver
        self.repeats = repeats
        self.seconds = 0.0

    def solve(self, problem: Problem) -> Solution:
        state = problem.probes.generator.get_state()
        solutions = []

        def run() -> None:
            problem.probes.generator.set_state(state)
            solutions.append(self.solver.solve(problem))

        self.seconds = seconds(run, self.repeats)
        return solutions[-1]
