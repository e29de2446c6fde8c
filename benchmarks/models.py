"""The networks that costs are quoted for, each with a batch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import timm
import torch
import torchvision
from timm.models.mlp_mixer import Affine, MlpMixer, ResBlock
from torch import Tensor, nn

from critinit.models import mlp


def resmlp_s12() -> nn.Module:
    """ResMLP-S12 for 32×32 images: 64 patches, 384 channels, LayerScale 0.1."""
    return MlpMixer(
        img_size=32,
        patch_size=4,
        num_classes=10,
        num_blocks=12,
        embed_dim=384,
        mlp_ratio=4,
        block_layer=partial(ResBlock, init_values=0.1),
        norm_layer=Affine,
    )


def resmlp_plain() -> nn.Module:
    """The same without the small LayerScale: all of them 1."""
    model = resmlp_s12()
    for name, p in model.named_parameters():
        if name.endswith((".ls1", ".ls2")):
            nn.init.ones_(p)
    return model


def vgg19_bn() -> nn.Module:
    """VGG19_BN for 32×32 images, with a linear head."""
    model = torchvision.models.vgg19_bn(num_classes=10)
    model.avgpool = nn.Identity()
    model.classifier = nn.Linear(512, 10)
    return model


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "MLP 10×500": (partial(mlp, 500, 10, inputs=500), (128, 500)),
    "VGG19_BN": (partial(torchvision.models.vgg19_bn, num_classes=10), (32, 3, 32, 32)),
    "ResMLP-S12": (resmlp_s12, (8, 3, 32, 32)),
    "ViT-tiny": (partial(timm.create_model, "vit_tiny_patch16_224"), (4, 3, 224, 224)),
}


Marks = tuple[float, float, float]
Tuned = tuple[Callable[[], nn.Module], tuple[int, ...], type[nn.Module] | None, Marks]
# With the parameters to scale, and the marks: sweep by J, by J and K, one step of SGD.
TUNED: dict[str, Tuned] = {
    "MLP 10×500": (*MODELS["MLP 10×500"], None, (3, 6, 2.5)),
    "VGG19_BN, γ and β": (*MODELS["VGG19_BN"], nn.BatchNorm2d, (3.5, 8, 2.5)),
    "ResMLP-S12, LayerScale 1": (resmlp_plain, (8, 3, 32, 32), None, (8, 12, 2.5)),
    "ViT-tiny": (*MODELS["ViT-tiny"], None, (4, 8, 2.5)),
}


def build(name: str) -> tuple[nn.Module, Tensor]:
    """The model in training mode, and its batch."""
    make, shape = MODELS[name]
    torch.manual_seed(0)
    return make().train(), torch.randn(shape)
