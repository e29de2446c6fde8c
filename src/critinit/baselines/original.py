"""Networks as their authors initialize them."""

from __future__ import annotations

import torch
from torch import nn

from critinit._state import all_or_nothing, draw_seed, untouched
from critinit.baselines._branches import NotApplicableError
from critinit.chain._calls import same_module
from critinit.models.resmlp import draw_as_timm
from critinit.models.vgg import draw_as_torchvision

_LAYERSCALE = ((18, 0.1), (24, 1e-5))  # up to this many blocks
_DEEPEST = 1e-6


def original_(
    model: nn.Module, batch: object = None, generator: torch.Generator | None = None
) -> None:
    """Draw a ResMLP or a VGG as it was published, critinit's, timm's or torchvision's.

    * ResMLP (Touvron et al., 2021): Xavier's variance in the blocks, LayerScale 0.1 (10⁻⁵ above 18
      blocks, 10⁻⁶ above 24), and a head of zeros.
    * VGG, as torchvision has it: convolutions with variance 2/fan_out, linear layers with 10⁻⁴, no
      biases, BatchNorm with γ = 1 and β = 0.

    Args:
        model: One of these.
        batch: Not needed.
        generator: The only source of randomness; by default a fresh one with seed 0.

    >>> from critinit.models import resmlp
    >>> model = resmlp(16, 2, layerscale=1.0)
    >>> original_(model)
    >>> bool((model.blocks[0].ls1 == 0.1).all())
    True
    """
    module = same_module(model)
    generator = generator or torch.Generator().manual_seed(0)
    blocks = [m for m in module.modules() if type(m).__name__ == "ResBlock"]
    is_vgg = type(module).__name__ == "VGG"
    if not blocks and not is_vgg:
        raise NotApplicableError(
            f"the original initialization is known for ResMLP and VGG, not for "
            f"{type(module).__name__}. Build the model afresh, or use 'default'."
        )
    frozen = [(p, p.detach().clone()) for p in module.parameters() if not p.requires_grad]
    with all_or_nothing(module), untouched(module, draw_seed(generator)), torch.no_grad():
        if is_vgg:
            draw_as_torchvision(module)
            _open_norms(module)
        else:
            draw_as_timm(module)
            _set_scales(module, blocks)
        for parameter, value in frozen:
            parameter.copy_(value)


def _open_norms(model: nn.Module) -> None:
    for norm in model.modules():
        if isinstance(norm, nn.BatchNorm2d) and norm.affine:
            norm.weight.fill_(1)
            norm.bias.fill_(0)


def _set_scales(model: nn.Module, blocks: list[nn.Module]) -> None:
    layerscale = next((e for depth, e in _LAYERSCALE if len(blocks) <= depth), _DEEPEST)
    for name, parameter in model.named_parameters():
        key = name.rpartition(".")[2]
        if key in ("ls1", "ls2"):
            parameter.fill_(layerscale)
        elif key in ("alpha", "beta"):
            parameter.fill_(key == "alpha")
