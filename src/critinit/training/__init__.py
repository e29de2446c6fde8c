"""Training by the paper's recipes, on timm and accelerate."""

from critinit.training.errors import DivergedError, TrainingError
from critinit.training.grid import train_grid
from critinit.training.initialize import check as check_init
from critinit.training.loop import Outcome, train
from critinit.training.recipe import Recipe, Tuning
from critinit.training.recipes import find, names

__all__ = [
    "DivergedError",
    "Outcome",
    "Recipe",
    "TrainingError",
    "Tuning",
    "check_init",
    "find",
    "names",
    "train",
    "train_grid",
]
