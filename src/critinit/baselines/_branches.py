"""The residual branches of the blocks that ResNets, ResMLPs and transformers are made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn

from critinit.chain._partition import NORMALIZATIONS
from critinit.errors import CritinitError


class NotApplicableError(CritinitError):
    """The initialization is made for other networks than this one."""


@dataclass(frozen=True)
class Branch:
    """What one skip connection goes round.

    Attributes:
        weights: Names of the weights of its layers, in order.
        gain: Name of the parameter that scales the whole branch (LayerScale, or γ of a
            normalization at its end), if there is one.
        normalized: Whether there is a normalization in its block.
    """

    weights: tuple[str, ...]
    gain: str | None
    normalized: bool


# By the class of the block: the layers of each branch, and what scales it where there is such.
_BLOCKS: dict[str, tuple[tuple[tuple[str, ...], str | None], ...]] = {
    # critinit and timm
    "ResBlock": ((("linear_tokens",), "ls1"), (("mlp_channels.fc1", "mlp_channels.fc2"), "ls2")),
    "PreNormBlock": ((("linear",), None),),
    # torchvision and timm
    "BasicBlock": ((("conv1", "conv2"), "bn2.weight"),),
    "Bottleneck": ((("conv1", "conv2", "conv3"), "bn3.weight"),),
    # timm
    "MixerBlock": (
        (("mlp_tokens.fc1", "mlp_tokens.fc2"), None),
        (("mlp_channels.fc1", "mlp_channels.fc2"), None),
    ),
    "Block": ((("attn.qkv", "attn.proj"), "ls1.gamma"), (("mlp.fc1", "mlp.fc2"), "ls2.gamma")),
    "ConvNeXtBlock": ((("conv_dw", "mlp.fc1", "mlp.fc2"), "gamma"),),
}


def find_branches(model: nn.Module, method: str) -> list[Branch]:
    """All branches, in the order of their blocks.

    Raises:
        NotApplicableError: There is none that is known.
    """
    found = [
        branch for place, module in model.named_modules() for branch in _branches(place, module)
    ]
    if not found:
        raise NotApplicableError(
            f"{method} is made for residual networks, and no known residual block is in this "
            f"{type(model).__name__}. Known are {', '.join(_BLOCKS)}, with the layers that "
            "critinit, torchvision and timm give them."
        )
    return found


def _branches(place: str, block: nn.Module) -> Iterator[Branch]:
    prefix = f"{place}." if place else ""
    own = dict(block.named_parameters())
    if getattr(block, "mu", 1) == 0:
        return  # critinit's own blocks, without their skip connections
    normalized = any(isinstance(m, NORMALIZATIONS) for m in block.modules())
    for layers, gain in _BLOCKS.get(type(block).__name__, ()):
        weights = tuple(f"{layer}.weight" for layer in layers)
        if all(weight in own for weight in weights):
            names = tuple(prefix + weight for weight in weights)
            yield Branch(names, prefix + gain if gain in own else None, normalized)
