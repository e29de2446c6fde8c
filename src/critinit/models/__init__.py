"""Networks whose partition and theory are known."""

from critinit.models._options import OptionError
from critinit.models.bn_mlp import PreNormBlock, bn_mlp, ln_mlp
from critinit.models.mlp import mlp
from critinit.models.registry import Entry, UnknownModelError, build, find, names
from critinit.models.resmlp import (
    ResBlock,
    ResMLP,
    resmlp,
    resmlp_b24,
    resmlp_s12,
    resmlp_s24,
    resmlp_s36,
)
from critinit.models.vgg import (
    VGG,
    vgg,
    vgg11,
    vgg11_bn,
    vgg13,
    vgg13_bn,
    vgg16,
    vgg16_bn,
    vgg19,
    vgg19_bn,
)

__all__ = [
    "VGG",
    "Entry",
    "OptionError",
    "PreNormBlock",
    "ResBlock",
    "ResMLP",
    "UnknownModelError",
    "bn_mlp",
    "build",
    "find",
    "ln_mlp",
    "mlp",
    "names",
    "resmlp",
    "resmlp_b24",
    "resmlp_s12",
    "resmlp_s24",
    "resmlp_s36",
    "vgg",
    "vgg11",
    "vgg11_bn",
    "vgg13",
    "vgg13_bn",
    "vgg16",
    "vgg16_bn",
    "vgg19",
    "vgg19_bn",
]
