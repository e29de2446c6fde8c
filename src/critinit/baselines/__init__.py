"""Other ways to initialize a network, to compare with: each a callable ``init(model, batch)``."""

from critinit.baselines._branches import NotApplicableError
from critinit.baselines.autoinit import autoinit_
from critinit.baselines.lsuv import lsuv_
from critinit.baselines.original import original_
from critinit.baselines.registry import Baseline, UnknownBaselineError, find, names
from critinit.baselines.residual import fixup_, skipinit_

__all__ = [
    "Baseline",
    "NotApplicableError",
    "UnknownBaselineError",
    "autoinit_",
    "find",
    "fixup_",
    "lsuv_",
    "names",
    "original_",
    "skipinit_",
]
