"""ResMLP (eq. resmlp_rec_full): linear layers across patches and channels, LayerScale, skips."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor, nn

from critinit.models._draw import check_sigmas, draw_
from critinit.models._options import (
    SMALL_IMAGE,
    Activation,
    OptionError,
    activation_layer,
    check_counts,
    check_numbers,
)

# The standard deviation of a standard normal variable that is cut off at ±2.
_STD_WITHIN_TWO = math.sqrt(1 - 4 * math.exp(-2) / math.sqrt(2 * math.pi) / math.erf(math.sqrt(2)))


class PatchEmbed(nn.Module):
    """The same linear map of every patch: (batch, channels, image, image) → (batch, N², d)."""

    def __init__(self, channels: int, patch: int, width: int) -> None:
        super().__init__()
        self.proj = nn.Conv2d(channels, width, patch, stride=patch)

    def forward(self, x: Tensor) -> Tensor:
        """Chop the images and embed the patches."""
        patches: Tensor = self.proj(x)
        return patches.flatten(2).transpose(1, 2)


class Affine(nn.Module):
    """``α h + β``, one of each for a channel: ResMLP's stand-in for a normalization."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(1, 1, width))
        self.beta = nn.Parameter(torch.zeros(1, 1, width))

    def forward(self, h: Tensor) -> Tensor:
        """Scale and shift every channel of (batch, N², d)."""
        return torch.addcmul(self.beta, self.alpha, h)


class ChannelMLP(nn.Module):
    """``W φ(W h + b) + b`` across channels, with a wider layer between."""

    def __init__(self, width: int, hidden: int, activation: nn.Module) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, hidden)
        self.act = activation
        self.fc2 = nn.Linear(hidden, width)

    def forward(self, h: Tensor) -> Tensor:
        """Map every patch of (batch, N², d)."""
        out: Tensor = self.fc2(self.act(self.fc1(h)))
        return out


class ResBlock(nn.Module):
    """``c = E (W a + B) + μ h`` across patches, then ``E MLP(d) + μ c`` across channels.

    ``a`` and ``d`` are the affine maps of ``h`` and ``c``. The skip connections go round those, as
    in the original; the appendix lets them start behind, which is the same at initialization.
    """

    def __init__(
        self,
        width: int,
        patches: int,
        hidden: int,
        activation: nn.Module,
        layerscale: float,
        mu: float,
    ) -> None:
        super().__init__()
        self.norm1 = Affine(width)
        self.linear_tokens = nn.Linear(patches, patches)
        self.norm2 = Affine(width)
        self.mlp_channels = ChannelMLP(width, hidden, activation)
        self.ls1 = nn.Parameter(layerscale * torch.ones(width))
        self.ls2 = nn.Parameter(layerscale * torch.ones(width))
        self.mu = mu

    def forward(self, h: Tensor) -> Tensor:
        """Map ``h^l`` to ``h^{l+1}``, both (batch, N², d)."""
        tokens: Tensor = self.linear_tokens(self.norm1(h).transpose(1, 2)).transpose(1, 2)
        c = self.mu * h + self.ls1 * tokens
        channels: Tensor = self.mlp_channels(self.norm2(c))
        return self.mu * c + self.ls2 * channels

    def extra_repr(self) -> str:
        """The strength of both skip connections."""
        return f"mu={self.mu}"


class ResMLP(nn.Module):
    """Embedding of patches, blocks, average over patches, linear classifier."""

    def __init__(
        self, stem: PatchEmbed, blocks: nn.Sequential, norm: Affine, head: nn.Linear
    ) -> None:
        super().__init__()
        self.stem = stem
        self.blocks = blocks
        self.norm = norm
        self.head = head

    def forward(self, x: Tensor) -> Tensor:
        """Images (batch, channels, image, image) → logits (batch, outputs)."""
        h: Tensor = self.norm(self.blocks(self.stem(x)))
        logits: Tensor = self.head(h.mean(dim=1))
        return logits


def resmlp(
    width: int = 384,
    depth: int = 12,
    *,
    image: int = 32,
    patch: int | None = None,
    channels: int = 3,
    outputs: int = 10,
    ratio: int = 4,
    layerscale: float = 0.1,
    mu: float = 1.0,
    activation: Activation = nn.GELU,
    sigma_w: float | None = None,
    sigma_b: float = 0.0,
) -> ResMLP:
    """ResMLP with ``depth`` residual blocks of ``width`` channels; stem and head make two more.

    Parameters have timm's names and shapes, so that weights can be exchanged.

    Args:
        width: Channels d of each patch.
        depth: Residual blocks.
        image: Height and width of the images.
        patch: Height and width of a patch; by default 16, and 4 for images below 112 pixels.
        channels: Of the images.
        outputs: Classes.
        ratio: How much wider the hidden layer across channels is.
        layerscale: The initial LayerScale E.
        mu: Strength μ of the skip connections; 1 as published.
        activation: φ.
        sigma_w: Draw all weights from ``N(0, σ_w²/fan_in)``, the head's included. Without it they
            are drawn as by timm: uniform with Xavier's variance, the stem truncated normal, and a
            head of zeros, which passes no gradient (J = 0).
        sigma_b: Standard deviation of the biases beside ``sigma_w``.

    >>> import torch, critinit
    >>> model = resmlp(16, 2, sigma_w=1.0)
    >>> critinit.trace(model, torch.randn(1, 3, 32, 32)).names
    ['stem.proj', 'blocks.0', 'blocks.1', 'head']
    """
    check_counts(
        width=width,
        depth=depth,
        image=image,
        channels=channels,
        outputs=outputs,
        ratio=ratio,
    )
    check_numbers(layerscale=layerscale, mu=mu)
    check_sigmas(sigma_w, sigma_b)
    patch = _patch_size(image, patch)
    patches = (image // patch) ** 2

    def block() -> ResBlock:
        layer = activation_layer(activation)
        return ResBlock(width, patches, ratio * width, layer, layerscale, mu)

    model = ResMLP(
        PatchEmbed(channels, patch, width),
        nn.Sequential(*(block() for _ in range(depth))),
        Affine(width),
        nn.Linear(width, outputs),
    )
    if sigma_w is None:
        draw_as_timm(model)
    else:
        draw_(model, sigma_w, sigma_b)
    return model


def _patch_size(image: int, patch: int | None) -> int:
    if patch is None:
        patch = 4 if image < SMALL_IMAGE else 16
    check_counts(patch=patch)
    if image % patch:
        raise OptionError(
            f"images of {image} pixels cannot be cut into patches of {patch}. Give a patch that "
            f"divides {image}."
        )
    return patch


def draw_as_timm(model: nn.Module) -> None:
    """Variance 2/(fan_in + fan_out) in the blocks, 1/fan_in in the stem, zeros in the head.

    ``model`` is a `ResMLP`, or timm's.
    """
    stem, head = model.get_submodule("stem.proj"), model.get_submodule("head")
    assert isinstance(stem, nn.Conv2d)
    assert isinstance(head, nn.Linear)
    _draw_stem(stem)
    for name, layer in model.get_submodule("blocks").named_modules():
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
            if "mlp_channels" in name:
                nn.init.normal_(layer.bias, std=1e-6)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)


def _draw_stem(proj: nn.Conv2d) -> None:
    std = proj.weight[0].numel() ** -0.5 / _STD_WITHIN_TWO
    nn.init.trunc_normal_(proj.weight, std=std, a=-2 * std, b=2 * std)
    if proj.bias is not None:
        nn.init.zeros_(proj.bias)


resmlp_s12 = partial(resmlp, width=384, depth=12, layerscale=0.1)
resmlp_s24 = partial(resmlp, width=384, depth=24, layerscale=1e-5)
resmlp_s36 = partial(resmlp, width=384, depth=36, layerscale=1e-6)
resmlp_b24 = partial(resmlp, width=768, depth=24, patch=8, layerscale=1e-6)
