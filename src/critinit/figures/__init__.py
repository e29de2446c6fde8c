"""Every figure of the paper, and two more, as one command each.

`run` computes points, keeps them in a table, and draws them beside the theory.
"""

from critinit.figures._registry import find, names
from critinit.figures._run import Drawn, run
from critinit.figures.errors import FigureError

__all__ = ["Drawn", "FigureError", "find", "names", "run"]
