"""Small networks of the kinds that initializers trip over. Each gives ten logits."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from timm.models.densenet import DenseNet
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn
from torch.nn.utils import parametrizations

WIDTH = 32


def plain(depth: int = 5, middle: Callable[[], nn.Module] = nn.Tanh) -> nn.Sequential:
    layers = [layer for _ in range(depth) for layer in (nn.Linear(WIDTH, WIDTH), middle())]
    return nn.Sequential(*layers, nn.Linear(WIDTH, 10))


def convolutional(inplace: bool = False, norm: bool = True) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs in (3, 16, 16):
        layers.append(nn.Conv2d(inputs, 16, 3, padding=1, bias=not norm))
        layers += [nn.BatchNorm2d(16)] if norm else []
        layers.append(nn.ReLU(inplace))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))


class BareParameters(nn.Module):
    """No layers: ``F.linear`` on parameters of its own."""

    def __init__(self) -> None:
        super().__init__()
        draw = lambda *shape: nn.Parameter(torch.randn(shape) / math.sqrt(2 * WIDTH))  # noqa: E731
        self.first, self.second, self.third = (draw(WIDTH, WIDTH) for _ in range(3))
        self.head = draw(10, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        for weight in (self.first, self.second, self.third):
            x = torch.tanh(F.linear(x, weight))
        return F.linear(x, self.head)


class Unused(nn.Module):
    """Two layers that no forward pass calls."""

    def __init__(self) -> None:
        super().__init__()
        self.spare, self.body, self.other = nn.Linear(WIDTH, 7), plain(), nn.Linear(7, 7)

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


def tied() -> nn.Module:
    """Two layers that own one weight."""
    model = plain()
    model[4].weight = model[2].weight
    return model


class Repeated(nn.Module):
    """One layer called three times."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.again = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.first(x))
        for _ in range(3):
            x = torch.tanh(self.again(x))
        return self.head(x)


def parametrized(parametrize: Callable[[nn.Module], nn.Module]) -> nn.Module:
    return nn.Sequential(*(parametrize(m) if isinstance(m, nn.Linear) else m for m in plain()))


class Encoder(nn.Module):
    """torch's own transformer."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, dropout=0.0, batch_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(WIDTH, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(x).mean(1))


def vit() -> nn.Module:
    return VisionTransformer(
        img_size=8, patch_size=4, num_classes=10, embed_dim=WIDTH, depth=3, num_heads=4
    )


class Language(nn.Module):
    """Its input are whole numbers; the head is the embedding again."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.body = nn.Embedding(10, WIDTH), plain()[:-1]
        self.head = nn.Linear(WIDTH, 10, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.body(self.tokens(ids)).mean(1))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(WIDTH, WIDTH, 2, batch_first=True), nn.Linear(WIDTH, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.lstm(x)[0][:, -1])


class Branches(nn.Module):
    """Two tensors go side by side from stage to stage."""

    def __init__(self) -> None:
        super().__init__()
        pair = lambda: nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))  # noqa: E731
        self.stages = nn.ModuleList(pair() for _ in range(3))
        self.head = nn.Linear(2 * WIDTH, 10)

    def forward(self, x: Tensor) -> Tensor:
        a = b = x
        for left, right in self.stages:
            a, b = torch.tanh(left(a) + 0.5 * b), torch.tanh(right(b) + 0.5 * a)
        return self.head(torch.cat([a, b], 1))


class ResidualBlock(nn.Module):
    """Ends in ReLU; the last γ is zero, as many libraries have it."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16)
        nn.init.zeros_(self.norm.weight)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x + self.norm(self.conv(x)))


def residual() -> nn.Module:
    stem, head = nn.Conv2d(3, 16, 3, padding=1), nn.Linear(16, 10)
    blocks = (ResidualBlock() for _ in range(3))
    return nn.Sequential(stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), head)


def zero_head() -> nn.Module:
    model = plain()
    nn.init.zeros_(model[-1].weight)
    return model


def frozen() -> nn.Module:
    """The first half is not to be changed."""
    model = plain()
    for layer in model[:4]:
        layer.requires_grad_(False)
    return model


def evaluated_norms() -> nn.Module:
    """In training mode, but for the norms, as in fine-tuning."""
    model = convolutional()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eval()
    return model


def densenet() -> nn.Module:
    """Its norms call ``F.batch_norm`` on their buffers, and an activation behind it."""
    return DenseNet(growth_rate=4, block_config=(2, 2), num_classes=10)


def transposed() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1),
        nn.Tanh(),
        nn.Conv2d(16, 16, 3, padding=1, groups=16),
        nn.GroupNorm(4, 16),
        nn.Tanh(),
        nn.ConvTranspose2d(16, 16, 4, 2, 1),
        nn.Tanh(),
        nn.Conv2d(16, 10, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )


ROWS, IMAGES, SEQUENCES = (16, WIDTH), (16, 3, 8, 8), (16, 6, WIDTH)


@dataclass(frozen=True)
class Awkward:
    make: Callable[[], nn.Module]
    shape: tuple[int, ...] = ROWS
    dtype: torch.dtype = torch.float32
    layout: torch.memory_format = torch.contiguous_format

    def build(self) -> nn.Module:
        torch.manual_seed(0)
        kind = torch.float32 if self.dtype is torch.long else self.dtype
        return self.make().to(kind).to(memory_format=self.layout)

    def batch(self, x: Tensor) -> Tensor:
        if self.dtype is torch.long:
            return (x[..., 0].abs() * 4).long().clamp(max=9)
        return x.to(self.dtype).contiguous(memory_format=self.layout)


AWKWARD: dict[str, Awkward] = {
    "parameters without layers": Awkward(BareParameters),
    "unused layers": Awkward(Unused),
    "tied weights": Awkward(tied),
    "a layer called three times": Awkward(Repeated),
    "weight_norm": Awkward(partial(parametrized, parametrizations.weight_norm)),
    "spectral_norm": Awkward(partial(parametrized, parametrizations.spectral_norm)),
    "frozen layers": Awkward(frozen),
    "head of zeros": Awkward(zero_head),
    "dropout": Awkward(partial(plain, middle=partial(nn.Dropout, 0.3))),
    "two branches side by side": Awkward(Branches),
    "float64": Awkward(plain, dtype=torch.float64),
    "bfloat16": Awkward(plain, dtype=torch.bfloat16),
    "in-place ReLU": Awkward(partial(convolutional, inplace=True), IMAGES),
    "channels-last": Awkward(convolutional, IMAGES, layout=torch.channels_last),
    "BatchNorm by its function": Awkward(densenet, (16, 3, 32, 32)),
    "BatchNorm in evaluation mode": Awkward(evaluated_norms, IMAGES),
    "γ of zeros in each residual branch": Awkward(residual, IMAGES),
    "grouped and transposed convolution": Awkward(transposed, IMAGES),
    "vision transformer": Awkward(vit, IMAGES),
    "torch's transformer": Awkward(Encoder, SEQUENCES),
    "LSTM": Awkward(Recurrent, SEQUENCES),
    "token ids, tied head": Awkward(Language, SEQUENCES, torch.long),
}
