"""The networks of the experiments, small enough for two cores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from torch import nn

from critinit.models import mlp, resmlp, vgg

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "gelu": nn.GELU,
}


def plain_cnn(activation: Callable[[], nn.Module]) -> nn.Sequential:
    """30 convolutions of 3×3 and a linear layer; no normalization, no skip connection."""
    layers = [*_convolutions(activation), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)]
    return nn.Sequential(*layers)


def _convolutions(activation: Callable[[], nn.Module]) -> Iterator[nn.Module]:
    channels = 3
    for width in (16, 32, 64):
        for index in range(10):
            stride = 2 if index == 0 else 1
            yield nn.Conv2d(channels, width, 3, stride=stride, padding=1)
            yield activation()
            channels = width


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    **{
        f"mlp-{name}": partial(mlp, 256, 50, inputs=3072, activation=layer)
        for name, layer in ACTIVATIONS.items()
    },
    **{f"cnn-{name}": partial(plain_cnn, layer) for name, layer in ACTIVATIONS.items()},
    "resmlp": partial(resmlp, 96, 12, image=32, patch=8),
    "vgg19": partial(vgg, 19, batchnorm=False, width=16),
    "vgg19_bn": partial(vgg, 19, batchnorm=True, width=16),
}
