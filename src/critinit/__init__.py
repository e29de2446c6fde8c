"""Is a PyTorch network critical at initialization? Measure it, and make it so."""

from critinit.chain import Block, Chain, trace
from critinit.errors import (
    BlockError,
    CritinitError,
    InputError,
    ModelError,
    NotDifferentiableError,
    NotFiniteError,
)
from critinit.losses import JKL, JLL, JSL
from critinit.measurement import measure
from critinit.profile import Factorization, Profile
from critinit.solvers import SGD, Sweep
from critinit.tuning import Result, tune_, tuned

__all__ = [
    "JKL",
    "JLL",
    "JSL",
    "SGD",
    "Block",
    "BlockError",
    "Chain",
    "CritinitError",
    "Factorization",
    "InputError",
    "ModelError",
    "NotDifferentiableError",
    "NotFiniteError",
    "Profile",
    "Result",
    "Sweep",
    "measure",
    "trace",
    "tune_",
    "tuned",
]
