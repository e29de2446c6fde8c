"""The networks that costs are quoted for, each with a batch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import timm
import torch
import torchvision
from timm.models.mlp_mixer import Affine, MlpMixer, ResBlock
from torch import Tensor, nn
from torchvision.models.resnet import BasicBlock

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


def vgg19(make: Callable[..., nn.Module] = torchvision.models.vgg19) -> nn.Module:
    """VGG19 for 32×32 images, with a linear head."""
    model = make(num_classes=10)
    model.avgpool = nn.Identity()
    model.classifier = nn.Linear(512, 10)
    return model


def vgg19_bn() -> nn.Module:
    """The same with BatchNorm."""
    return vgg19(torchvision.models.vgg19_bn)


def resnet20() -> nn.Module:
    """Like ResNet-20 for 32×32 images: three stages of three blocks, 16 to 64 channels."""

    def block(inputs: int, outputs: int, stride: int = 1) -> nn.Module:
        change = nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
        )
        return BasicBlock(inputs, outputs, stride, change if inputs != outputs else None)

    return nn.Sequential(
        nn.Sequential(nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()),
        *(block(16, 16) for _ in range(3)),
        *(block(16, 32, 2), block(32, 32), block(32, 32)),
        *(block(32, 64, 2), block(64, 64), block(64, 64)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    )


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "MLP 10×500": (partial(mlp, 500, 10, inputs=500), (128, 500)),
    "VGG19_BN": (partial(torchvision.models.vgg19_bn, num_classes=10), (32, 3, 32, 32)),
    "ResMLP-S12": (resmlp_s12, (8, 3, 32, 32)),
    "ViT-tiny": (partial(timm.create_model, "vit_tiny_patch16_224"), (4, 3, 224, 224)),
}


def small(name: str, **options: object) -> Callable[[], nn.Module]:
    """A model of timm with ten classes."""
    return partial(timm.create_model, name, num_classes=10, **options)


# Where critinit stands beside its peers: one forward and backward pass takes up to 0.3 s.
BESIDE: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "MLP 10×500": (partial(mlp, 500, 10, inputs=500), (64, 500)),
    "VGG19": (vgg19, (8, 3, 32, 32)),
    "VGG19_BN": (vgg19_bn, (8, 3, 32, 32)),
    "ResNet-20": (resnet20, (8, 3, 32, 32)),
    "ResMLP-S12": (resmlp_s12, (2, 3, 32, 32)),
    "ViT-tiny": (small("vit_tiny_patch16_224", img_size=64), (4, 3, 64, 64)),
    "ConvNeXt-atto": (small("convnext_atto"), (4, 3, 64, 64)),
    "EfficientNet-B0": (small("efficientnet_b0"), (4, 3, 64, 64)),
    "DenseNet-121": (small("densenet121"), (4, 3, 64, 64)),
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
