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
from critinit.measurement import measure
from critinit.profile import Factorization, Profile

__all__ = [
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
    "measure",
    "trace",
]
