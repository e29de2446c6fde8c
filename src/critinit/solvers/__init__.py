"""Two ways to find the multipliers: the paper's gradient descent, and one sweep."""

from critinit.solvers._problem import Problem, Solution, Step
from critinit.solvers.sgd import SGD
from critinit.solvers.sweep import Sweep

__all__ = ["SGD", "Problem", "Solution", "Step", "Sweep"]
