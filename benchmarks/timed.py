"""A solver's own time, within all that tuning does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cost import seconds

from critinit.solvers._problem import Problem, Solution


@dataclass
class Timed:
    """A solver that times another one's work on the same problem, over and over."""

    solver: Any
    repeats: int = 1
    seconds: float = 0.0

    def solve(self, problem: Problem) -> Solution:
        state = problem.probes.generator.get_state()
        solutions = []

        def run() -> None:
            problem.probes.generator.set_state(state)
            solutions.append(self.solver.solve(problem))

        self.seconds = seconds(run, self.repeats)
        return solutions[-1]
