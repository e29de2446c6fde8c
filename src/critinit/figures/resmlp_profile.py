"""Fig. resmlp, left and middle: J and K of ResMLP-S12 at three initializations."""

from __future__ import annotations

from torch import nn

import critinit
from critinit.figures._figure import Settings
from critinit.figures._profiles import Case
from critinit.models import resmlp

_PAPER = {
    "data": "cifar10",
    "width": 384,
    "depth": 12,
    "batch": 256,
    "probes": 2,
    "steps": 392,
    "eta": 0.03,
    "lambda": 0.5,
    "seed": 0,
}
_SMALL = _PAPER | {"batch": 8}
_SMOKE = _PAPER | {"data": "gaussian", "width": 16, "depth": 2, "batch": 4, "steps": 5}


def _original(settings: Settings) -> nn.Module:
    """LayerScale 0.1, and a head of zeros."""
    return resmlp(settings["width"], settings["depth"], layerscale=0.1)


def _kaiming(settings: Settings) -> nn.Module:
    """Variance 2/fan_in for all weights, and LayerScale 1."""
    return critinit.reset_(_original(settings), "kaiming", bias_std=0.0)


FIGURE = Case(
    title="ResMLP-S12: $J$ and $K$ by depth (a block holds two residual connections)",
    starts={"kaiming": _kaiming, "original": _original},
    tuned_from="kaiming",
    scale=None,
).figure(
    "resmlp-profile",
    "J and K of ResMLP-S12 by depth: three initializations",
    {"smoke": _SMOKE, "small": _SMALL, "paper": _PAPER},
)
