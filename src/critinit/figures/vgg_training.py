"""Fig. vgg, right: how VGG learns from each initialization."""

from __future__ import annotations

from critinit.figures._curves import Curves

FIGURE = Curves("VGG: accuracy by epoch", "vgg").figure(
    "vgg-training", "accuracy of VGG by epoch, from its runs"
)
