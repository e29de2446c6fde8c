"""The paper's trainings, and short versions of them for two cores."""

from __future__ import annotations

from dataclasses import replace

from critinit.models._options import suggestion
from critinit.training.errors import TrainingError
from critinit.training.recipe import Recipe, Tuning

# timm's usual strength, since the paper gives none; mmax9, since at 10 timm asks pillow for images
# of zero bits, which pillow refuses.
_RANDAUGMENT = "rand-m9-mstd0.5-mmax9-inc1"

RESMLP_CIFAR10 = Recipe(
    name="resmlp-s12-cifar10",
    about="ResMLP-S12 on CIFAR-10, the paper's figure resmlp and its appendix.",
    model="resmlp_s12",
    data="cifar10",
    image=32,
    tuning=Tuning(lam=0.05, eta=0.03, steps=392, batch=256, probes=2),
    epochs=600,
    batch=256,
    optimizer="lamb",
    lr=0.01,
    weight_decay=1e-4,
    drops=(450, 550),
    randaugment=_RANDAUGMENT,
    mixup=0.8,
    repeats=3,
    lrs=(0.005, 0.01),
    weight_decays=(1e-5, 1e-4),
)

VGG_CIFAR10 = Recipe(
    name="vgg19_bn-cifar10",
    about=(
        "VGG19_BN on CIFAR-10, the paper's figure vgg and its appendix. The multipliers of "
        "BatchNorm are kept frozen beside it. A linear head on 32×32 images."
    ),
    model="vgg19_bn",
    data="cifar10",
    image=32,
    tuning=Tuning(
        lam=0.05,
        eta=0.01,
        steps=392,
        batch=128,
        probes=3,
        scale="batchnorm",
        keep="frozen",
    ),
    epochs=300,
    batch=256,
    optimizer="momentum",
    lr=0.01,
    weight_decay=0.001,
    drops=(150, 225),
    randaugment=_RANDAUGMENT,
    mixup=0.8,
    repeats=3,
    lrs=(0.001, 0.002, 0.005, 0.01, 0.02),
    weight_decays=(0.0005, 0.001, 0.002, 0.005),
)

RESMLP_IMAGENET = Recipe(
    name="resmlp-s12-imagenet",
    about=(
        "ResMLP-S12 on ImageNet: lr 0.001, |B| = 1024, mixed precision, no moving average of the "
        "weights. What the paper does not give is as in the ResMLP and DeiT papers: weight decay, "
        "augmentation, cosine schedule with 5 epochs of warmup. Set data=folder:PATH."
    ),
    model="resmlp_s12",
    options={"outputs": 1000},
    data="folder:imagenet",
    image=224,
    tuning=Tuning(lam=0.5, eta=0.03, steps=500, batch=32),
    epochs=400,
    batch=1024,
    optimizer="lamb",
    lr=0.001,
    weight_decay=0.2,
    schedule="cosine",
    warmup=5,
    randaugment=_RANDAUGMENT,
    crop=True,
    erase=0.25,
    mixup=0.8,
    cutmix=1.0,
    smoothing=0.1,
    repeats=3,
    precision="fp16",
)

RESMLP_CIFAR10_CPU = replace(
    RESMLP_CIFAR10,
    name="resmlp-s12-cifar10-cpu",
    about=(
        "resmlp-s12-cifar10 for two cores: 96 channels instead of 384 and patches of 8 instead of "
        "4 pixels, 12 epochs of 10,000 images with drops at 9 and 11, tuned with 100 steps on 64. "
        "The grid has one weight decay."
    ),
    model="resmlp",
    options={"width": 96, "depth": 12, "patch": 8, "layerscale": 0.1},
    tuning=replace(RESMLP_CIFAR10.tuning, steps=100, batch=64),
    epochs=12,
    drops=(9, 11),
    examples=10_000,
    weight_decays=(1e-4,),
)

VGG_CIFAR10_CPU = replace(
    VGG_CIFAR10,
    name="vgg19_bn-cifar10-cpu",
    about=(
        "vgg19_bn-cifar10 for two cores: widths divided by 4, 8 epochs of 10,000 images with drops "
        "at 4 and 6, tuned with 50 steps. The grid has one weight decay."
    ),
    model="vgg",
    options={"layers": 19, "batchnorm": True, "width": 16},
    tuning=replace(VGG_CIFAR10.tuning, steps=50),
    epochs=8,
    drops=(4, 6),
    examples=10_000,
    weight_decays=(0.001,),
)

RESMLP_IMAGENET_CPU = replace(
    RESMLP_IMAGENET,
    name="resmlp-s12-imagenet-cpu",
    about=(
        "resmlp-s12-imagenet to try the path out: 48 channels instead of 384, |B| = 32, full "
        "precision, 2 epochs without warmup, tuned with 20 steps on 8 images."
    ),
    model="resmlp",
    options={"width": 48, "depth": 12, "patch": 16, "layerscale": 0.1, "outputs": 1000},
    tuning=replace(RESMLP_IMAGENET.tuning, steps=20, batch=8),
    epochs=2,
    warmup=0,
    batch=32,
    precision="no",
)

_RECIPES = {
    recipe.name: recipe
    for recipe in (
        RESMLP_CIFAR10,
        VGG_CIFAR10,
        RESMLP_IMAGENET,
        RESMLP_CIFAR10_CPU,
        VGG_CIFAR10_CPU,
        RESMLP_IMAGENET_CPU,
    )
}


def names() -> list[str]:
    """The names of all recipes."""
    return list(_RECIPES)


def find(name: str) -> Recipe:
    """The recipe of this name.

    >>> find("resmlp-s12-cifar10").drops
    (450, 550)
    """
    if name not in _RECIPES:
        raise TrainingError(f"there is no recipe {name!r}. {suggestion(name, _RECIPES)}")
    return _RECIPES[name]
