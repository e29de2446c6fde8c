"""Fig. resmlp, right: how ResMLP learns from each initialization."""

from __future__ import annotations

from critinit.figures._curves import Curves

FIGURE = Curves("ResMLP: accuracy by epoch", "resmlp").figure(
    "resmlp-training", "accuracy of ResMLP by epoch, from its runs"
)
