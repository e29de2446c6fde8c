"""Fig. vgg, left and middle: J and K of VGG19_BN at three initializations."""

from __future__ import annotations

from torch import nn

import critinit
from critinit.figures._figure import Settings
from critinit.figures._profiles import Case
from critinit.models import vgg

_PAPER = {
    "data": "cifar10",
    "layers": 19,
    "batch": 128,
    "probes": 3,
    "steps": 392,
    "eta": 0.01,
    "lambda": 0.05,
    "seed": 0,
}
_SMALL = _PAPER | {"batch": 32}
_SMOKE = _PAPER | {"data": "gaussian", "layers": 11, "batch": 4, "probes": 1, "steps": 2}


def _pytorch(settings: Settings) -> nn.Module:
    """Kaiming's variance by fan_out, as torchvision draws it."""
    return vgg(settings["layers"], batchnorm=True)


def _kaiming(settings: Settings) -> nn.Module:
    """By fan_in."""
    return critinit.reset_(_pytorch(settings), "kaiming", bias_std=0.0)


FIGURE = Case(
    title="VGG19_BN: $J$ and $K$ by depth (a block is Conv-BatchNorm-ReLU or a max-pool)",
    starts={"kaiming": _kaiming, "original": _pytorch},
    tuned_from="original",
    scale=nn.BatchNorm2d,
).figure(
    "vgg-profile",
    "J and K of VGG19_BN by depth: three initializations",
    {"smoke": _SMOKE, "small": _SMALL, "paper": _PAPER},
)
