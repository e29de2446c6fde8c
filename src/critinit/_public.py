"""The public names, imported by `critinit` when the first of them is asked for."""

from critinit.base import reset_
from critinit.baselines.autoinit import autoinit_
from critinit.chain import Block, Chain, trace
from critinit.errors import (
    BlockError,
    CritinitError,
    InputError,
    ModelError,
    NotDifferentiableError,
    NotFiniteError,
)
from critinit.keep import KeepError, fold_
from critinit.losses import JKL, JLL, JSL
from critinit.measurement import measure
from critinit.profile import Factorization, Profile
from critinit.result import Result
from critinit.scan import BatchScan, batch_scan
from critinit.solvers import SGD, Sweep
from critinit.tuning import tune_, tuned

__all__ = [
    "JKL",
    "JLL",
    "JSL",
    "SGD",
    "BatchScan",
    "Block",
    "BlockError",
    "Chain",
    "CritinitError",
    "Factorization",
    "InputError",
    "KeepError",
    "ModelError",
    "NotDifferentiableError",
    "NotFiniteError",
    "Profile",
    "Result",
    "Sweep",
    "autoinit_",
    "batch_scan",
    "fold_",
    "measure",
    "reset_",
    "trace",
    "tune_",
    "tuned",
]
