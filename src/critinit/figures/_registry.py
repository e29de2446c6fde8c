"""The figures by name; each is imported when it is asked for."""

from __future__ import annotations

from importlib import import_module

from critinit.figures._figure import Figure
from critinit.figures.errors import FigureError
from critinit.models._options import suggestion

_MODULES = {
    "relu-one-step": "relu_one_step",
    "relu-scan": "relu_scan",
    "bn-phase": "bn_phase",
    "bn-batch": "bn_batch",
    "resmlp-profile": "resmlp_profile",
    "vgg-profile": "vgg_profile",
    "resmlp-training": "resmlp_training",
    "vgg-training": "vgg_training",
    "activation-phases": "activation_phases",
    "loss-choice": "loss_choice",
}


def names() -> list[str]:
    """All figures.

    >>> names()[:3]
    ['relu-one-step', 'relu-scan', 'bn-phase']
    """
    return list(_MODULES)


def find(name: str) -> Figure:
    """The figure of this name."""
    if name not in _MODULES:
        raise FigureError(f"there is no figure {name!r}. {suggestion(name, _MODULES)}")
    module = import_module(f"critinit.figures.{_MODULES[name]}")
    figure: Figure = module.FIGURE
    return figure
