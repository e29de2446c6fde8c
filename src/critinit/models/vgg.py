"""VGG, with and without BatchNorm, for small images and for ImageNet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Literal

from torch import Tensor, nn

from critinit.models._draw import check_sigmas, draw_
from critinit.models._options import (
    SMALL_IMAGE,
    Activation,
    OptionError,
    activation_layer,
    check_counts,
)

_WIDTHS = (1, 2, 4, 8, 8)  # of the convolutions between two max-pools, in units of the first
_CONVOLUTIONS = {
    11: (1, 1, 2, 2, 2),
    13: (2, 2, 2, 2, 2),
    16: (2, 2, 3, 3, 3),
    19: (2, 2, 4, 4, 4),
}


class VGG(nn.Module):
    """Convolutions with max-pools between, average pool, and a classifier."""

    def __init__(self, features: nn.Sequential, avgpool: nn.Module, classifier: nn.Module) -> None:
        super().__init__()
        self.features = features
        self.avgpool = avgpool
        self.classifier = classifier

    def forward(self, x: Tensor) -> Tensor:
        """Images (batch, channels, height, width), 32 pixels or more → logits (batch, outputs)."""
        logits: Tensor = self.classifier(self.avgpool(self.features(x)).flatten(1))
        return logits


def vgg(
    layers: int = 19,
    *,
    batchnorm: bool = True,
    image: int = 32,
    head: Literal["linear", "mlp"] | None = None,
    channels: int = 3,
    outputs: int = 10,
    width: int = 64,
    dropout: float = 0.5,
    activation: Activation = nn.ReLU,
    sigma_w: float | None = None,
    sigma_b: float = 0.0,
) -> VGG:
    """VGG with 11, 13, 16 or 19 ``layers`` that have weights, as torchvision builds it.

    With BatchNorm each Conv–BatchNorm–ReLU is a block, and so is each max-pool between two.

    Args:
        layers: 11, 13, 16 or 19, counted with the three layers of ``head="mlp"``.
        batchnorm: A BatchNorm after each convolution.
        image: Height and width of the images, 32 or more.
        head: ``"mlp"`` is the original of three layers, with parameters that have torchvision's
            names and shapes; ``"linear"`` one layer on the average of each feature. By default
            that is the head of images below 112 pixels.
        channels: Of the images.
        outputs: Classes.
        width: Channels of the first convolution; 64 as published, and all others in proportion.
        dropout: Probability, in ``head="mlp"``.
        activation: φ.
        sigma_w: Draw all weights from ``N(0, σ_w²/fan_in)``. Without it they are drawn as by
            torchvision: convolutions with variance 2/fan_out, linear layers with 10⁻⁴, biases 0.
        sigma_b: Standard deviation of the biases beside ``sigma_w``.

    >>> import torch, critinit
    >>> critinit.trace(vgg(11), torch.randn(2, 3, 32, 32)).names[:4]
    ['features.0', 'features.3', 'features.4', 'features.7']
    """
    if layers not in _CONVOLUTIONS:
        raise OptionError(f"layers={layers!r}: VGG comes with 11, 13, 16 or 19.")
    check_counts(image=image, channels=channels, outputs=outputs, width=width)
    check_sigmas(sigma_w, sigma_b)
    if not 0 <= dropout <= 1:
        raise OptionError(f"dropout={dropout}: give a probability.")
    if image < 32:
        raise OptionError(f"image={image}: five max-pools need 32 pixels or more.")
    if head not in (None, "linear", "mlp"):
        raise OptionError(f"head={head!r} is unknown. Use 'linear' or 'mlp'.")
    phi = partial(activation_layer, activation)
    widths = [width * factor for factor in _WIDTHS]
    convolutions = zip(_CONVOLUTIONS[layers], widths, strict=True)
    features = nn.Sequential(*_features(convolutions, channels, batchnorm, phi))
    if head == "linear" or (head is None and image < SMALL_IMAGE):
        model = VGG(features, nn.AdaptiveAvgPool2d(1), nn.Linear(widths[-1], outputs))
    else:
        model = VGG(
            features, nn.AdaptiveAvgPool2d(7), _classifier(widths[-1], outputs, dropout, phi)
        )
    if sigma_w is None:
        draw_as_torchvision(model)
    else:
        draw_(model, sigma_w, sigma_b)
    return model


def _features(
    convolutions: Iterable[tuple[int, int]],
    channels: int,
    batchnorm: bool,
    phi: Callable[[], nn.Module],
) -> Iterator[nn.Module]:
    for count, width in convolutions:
        for _ in range(count):
            yield nn.Conv2d(channels, width, 3, padding=1)
            if batchnorm:
                yield nn.BatchNorm2d(width)
            yield phi()
            channels = width
        yield nn.MaxPool2d(2)


def _classifier(
    width: int, outputs: int, dropout: float, phi: Callable[[], nn.Module]
) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(width * 7 * 7, 4096),
        phi(),
        nn.Dropout(dropout),
        nn.Linear(4096, 4096),
        phi(),
        nn.Dropout(dropout),
        nn.Linear(4096, outputs),
    )


def draw_as_torchvision(model: nn.Module) -> None:
    """Of a `VGG`, or torchvision's or timm's, all but BatchNorm, which is as torch made it."""
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
        elif isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, std=0.01)
        else:
            continue
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)


vgg11 = partial(vgg, layers=11, batchnorm=False)
vgg13 = partial(vgg, layers=13, batchnorm=False)
vgg16 = partial(vgg, layers=16, batchnorm=False)
vgg19 = partial(vgg, layers=19, batchnorm=False)
vgg11_bn = partial(vgg, layers=11, batchnorm=True)
vgg13_bn = partial(vgg, layers=13, batchnorm=True)
vgg16_bn = partial(vgg, layers=16, batchnorm=True)
vgg19_bn = partial(vgg, layers=19, batchnorm=True)
