"""Initializations that make residual networks start as the identity."""

from __future__ import annotations

import torch
from torch import nn

from critinit._state import all_or_nothing
from critinit.base import reset_
from critinit.baselines._branches import NotApplicableError, find_branches
from critinit.chain._calls import same_module
from critinit.keep import keep_multipliers


def fixup_(
    model: nn.Module, batch: object = None, generator: torch.Generator | None = None
) -> None:
    """Fixup (Zhang, Dauphin and Ma, 2019), its rules 1 and 2.

    The classifier and the last layer of each residual branch are zero. The other layers are drawn
    with variance 2/fan_in, and those in branches scaled by ``L^(-1/(2m-2))``, for L branches of m
    layers. Rule 3, scalar biases and multipliers, would change the network: of it there is what
    the network has itself, biases of zero and LayerScale of one.

    Args:
        model: A residual network without normalization.
        batch: Not needed.
        generator: The only source of randomness; by default a fresh one with seed 0.

    >>> from critinit.models import resmlp
    >>> model = resmlp(16, 2)
    >>> fixup_(model)
    >>> bool(model.blocks[0].mlp_channels.fc2.weight.any())
    False
    """
    module = same_module(model)
    branches = find_branches(module, "Fixup")
    if any(branch.normalized for branch in branches):
        raise NotApplicableError(
            f"Fixup is made for networks without normalization, and this {type(module).__name__} "
            "has one in its residual blocks. Build it without, or use 'skipinit'."
        )
    with all_or_nothing(module):
        reset_(module, bias_std=0, generator=generator)
        with torch.no_grad():
            for branch in branches:
                layers = [module.get_parameter(name) for name in branch.weights]
                for weight in layers[:-1]:
                    weight.mul_(len(branches) ** (-1 / (2 * len(layers) - 2)))
                layers[-1].zero_()
            _classifier(module).weight.zero_()


def skipinit_(
    model: nn.Module, batch: object = None, generator: torch.Generator | None = None
) -> None:
    """SkipInit (De and Smith, 2020), or ReZero (Bachlechner et al., 2020).

    Weights have variance 2/fan_in, and each residual branch is multiplied by a trained scalar that
    is zero at first. That is LayerScale, or γ of a normalization at the branch's end, where there
    is one; else the branch's last weight gets a trainable multiplier (`critinit.keep`), and its
    bias, zero at first, goes without.

    Args:
        model: A residual network.
        batch: Not needed.
        generator: The only source of randomness; by default a fresh one with seed 0.

    >>> from critinit.models import resmlp
    >>> model = resmlp(16, 2)
    >>> skipinit_(model)
    >>> h = torch.randn(3, 64, 16)
    >>> torch.equal(model.blocks(h), h)
    True
    """
    module = same_module(model)
    branches = find_branches(module, "SkipInit")
    with all_or_nothing(module):
        reset_(module, bias_std=0, generator=generator)
        with torch.no_grad():
            for branch in branches:
                if branch.gain is not None:
                    module.get_parameter(branch.gain).zero_()
        last = {b.weights[-1]: 0.0 for b in branches if b.gain is None}
        if last:
            keep_multipliers(module, last, "trainable")


def _classifier(model: nn.Module) -> nn.Linear:
    """The last linear layer."""
    return [m for m in model.modules() if isinstance(m, nn.Linear)][-1]
