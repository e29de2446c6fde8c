"""The case table: small networks of every kind, with inputs, that many tests run over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations

import critinit
from critinit.chain._inputs import read_batches


class Residual(nn.Module):
    """``W φ(BN(h)) + μ h``: the paper's pre-BN block."""

    def __init__(self, width: int, mu: float) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(width)
        self.linear = nn.Linear(width, width)
        self.mu = mu

    def forward(self, h: Tensor) -> Tensor:
        return self.linear(F.relu(self.norm(h))) + self.mu * h


class FunctionalNorm(nn.Module):
    """Normalizes by the function, on buffers of its own."""

    def __init__(self, depth: int = 3) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(depth))
        self.register_buffer("mean", torch.zeros(6))
        self.register_buffer("var", torch.ones(6))

    def forward(self, x: Tensor) -> Tensor:
        h = x
        for layer in self.layers:
            h = F.relu(F.batch_norm(layer(h), self.mean, self.var, training=self.training))
        return h


class FunctionalResidual(nn.Module):
    """Skip connections written out in one ``forward``."""

    def __init__(self, depth: int = 5) -> None:
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(depth))
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        for layer in self.layers:
            h = h + 0.5 * torch.tanh(layer(h))
        return self.head(h.relu())


class BareParameters(nn.Module):
    """No submodules at all."""

    def __init__(self) -> None:
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(8, 6) / 6**0.5)
        self.w2 = nn.Parameter(torch.randn(8, 8) / 8**0.5)
        self.shift = nn.Parameter(torch.randn(8))
        self.w3 = nn.Parameter(torch.randn(3, 8) / 8**0.5)

    def forward(self, x: Tensor) -> Tensor:
        h = x @ self.w1.T
        h = torch.tanh(h) @ self.w2.T + self.shift
        return F.gelu(h) @ self.w3.T


class Shared(nn.Module):
    """One layer applied three times."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.again = nn.Linear(8, 8)
        self.last = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        for _ in range(3):
            h = self.again(torch.tanh(h))
        return self.last(h)


class TwoInputs(nn.Module):
    """The second input joins at once, the third one late."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Bilinear(5, 4, 8)
        self.hidden = nn.Linear(8, 8)
        self.last = nn.Linear(8, 3)

    def forward(self, a: Tensor, b: Tensor, *, condition: Tensor) -> Tensor:
        h = self.hidden(torch.tanh(self.mix(a, b)))
        return self.last(torch.tanh(h) * condition)


class TwoBranches(nn.Module):
    """A stage that carries two tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(6, 6), nn.Linear(4, 4)
        self.across = nn.Linear(6, 4)

    def forward(self, pair: list[Tensor]) -> list[Tensor]:
        a, b = pair
        left = torch.tanh(self.left(a))
        return [left, torch.tanh(self.right(b)) + self.across(left)]


class Parallel(nn.Module):
    """Every boundary between the stages is a tuple of two tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(5, 6), nn.Linear(5, 4)
        self.stages = nn.ModuleList(TwoBranches() for _ in range(3))
        self.head = nn.Linear(10, 2)

    def forward(self, x: Tensor) -> Tensor:
        pair = [self.a(x), self.b(x)]
        for stage in self.stages:
            pair = stage(pair)
        return self.head(torch.cat(pair, dim=1))


class Gated(nn.Module):
    """Bias computed once from a parameter and used in every block; setitem and in-place glue."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(8) * 0.1)
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        bias = torch.sigmoid(self.table)
        canvas = torch.zeros_like(x)
        canvas[:, :] = x
        h = canvas
        for layer in self.layers:
            h = layer(h)
            h += bias
            h = F.relu(h, inplace=True)
        return h


@dataclass
class Output:
    """Not registered with torch's trees."""

    name: str
    logits: Tensor


class Boxed(nn.Module):
    """Wraps its output in what ``box`` makes of it."""

    def __init__(self, body: nn.Module, box: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.body = body
        self.box = box

    def forward(self, x: Tensor) -> Any:
        return self.box(self.body(x))


class TinyLanguageModel(nn.Module):
    """Tied embedding, learned positions, causal attention."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(11, 8)
        self.positions = nn.Embedding(6, 8)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(2)
        )
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids: Tensor) -> Tensor:
        length = ids.shape[1]
        h = self.tokens(ids) + self.positions(torch.arange(length, device=ids.device))
        mask = torch.triu(torch.full((length, length), float("-inf")), 1).to(h)
        for block in self.blocks:
            h = block(h, src_mask=mask)
        return self.head(h)


def mlp(activation: type[nn.Module], depth: int = 4, width: int = 8) -> nn.Module:
    layers: list[nn.Module] = [nn.Linear(6, width)]
    for _ in range(depth):
        layers += [activation(), nn.Linear(width, width)]
    return nn.Sequential(*layers)


def cnn(norm: bool, inplace: bool = False) -> nn.Module:
    def conv(a: int, b: int, stride: int = 1) -> list[nn.Module]:
        made: list[nn.Module] = [nn.Conv2d(a, b, 3, stride, 1, bias=not norm)]
        if norm:
            made.append(nn.BatchNorm2d(b))
        return [*made, nn.ReLU(inplace=inplace)]

    return nn.Sequential(
        *conv(2, 3),
        *conv(3, 4),
        nn.MaxPool2d(2),
        *conv(4, 4, stride=2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4, 3),
    )


def pre_bn(mu: float) -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), *(Residual(8, mu) for _ in range(3)), nn.Linear(8, 3))


def normalized(norm: Callable[[], nn.Module]) -> nn.Module:
    layers: list[nn.Module] = []
    for width in (6, 8, 8):
        layers += [nn.Linear(width, 8), norm(), nn.GELU()]
    return nn.Sequential(*layers, nn.Linear(8, 3))


def parametrized() -> nn.Module:
    return nn.Sequential(
        parametrizations.weight_norm(nn.Linear(6, 8)),
        nn.Tanh(),
        parametrizations.spectral_norm(nn.Linear(8, 8)),
        nn.Tanh(),
        parametrizations.orthogonal(nn.Linear(8, 8)),
        nn.Tanh(),
        nn.Linear(8, 3),
    )


def resmlp() -> nn.Module:
    from timm.models.mlp_mixer import Affine, MlpMixer, ResBlock

    return MlpMixer(
        img_size=8,
        patch_size=4,
        num_classes=3,
        num_blocks=3,
        embed_dim=6,
        mlp_ratio=2,
        block_layer=partial(ResBlock, init_values=0.5),
        norm_layer=Affine,
    )


def vit() -> nn.Module:
    from timm.models.vision_transformer import VisionTransformer

    return VisionTransformer(
        img_size=8, patch_size=4, num_classes=3, embed_dim=8, depth=2, num_heads=2, mlp_ratio=2
    )


def densenet() -> nn.Module:
    from torchvision.models import DenseNet

    return DenseNet(growth_rate=2, block_config=(2, 2), num_init_features=4, num_classes=3)


@dataclass(frozen=True)
class Case:
    """A network, its inputs, and the names its blocks have."""

    make: Callable[[], nn.Module]
    inputs: Callable[[], Any]
    names: list[str]
    random: bool = False  # draws dropout masks or the like

    def build(self) -> tuple[nn.Module, Any]:
        """The same network and inputs every time."""
        torch.manual_seed(7)
        model = self.make()
        for name, p in model.named_parameters():
            if p.ndim < 2 and "original" not in name:
                with torch.no_grad():  # so that biases and norms are not at special values
                    p.add_(0.1 * torch.randn_like(p))
        return model, self.inputs()


def rows(n: int = 6, width: int = 6) -> Callable[[], Tensor]:
    return lambda: torch.randn(n, width)


def images(n: int = 4, channels: int = 2, size: int = 8) -> Callable[[], Tensor]:
    return lambda: torch.randn(n, channels, size, size)


MLP = ["0", "2", "4", "6", "8"]
CASES: dict[str, Case] = {
    "mlp relu": Case(partial(mlp, nn.ReLU), rows(), MLP),
    "mlp tanh": Case(partial(mlp, nn.Tanh), rows(), MLP),
    "mlp gelu": Case(partial(mlp, nn.GELU), rows(), MLP),
    "mlp one example": Case(partial(mlp, nn.Tanh), rows(1), MLP),
    "one layer": Case(partial(nn.Linear, 6, 4), rows(), ["weight"]),
    "cnn": Case(partial(cnn, norm=False), images(), ["0", "2", "5", "9"]),
    "cnn batchnorm": Case(partial(cnn, norm=True), images(), ["0", "3", "6", "7", "12"]),
    "cnn batchnorm eval": Case(lambda: cnn(norm=True).eval(), images(), ["0", "3", "6", "7", "12"]),
    "cnn in-place": Case(
        partial(cnn, norm=True, inplace=True), images(), ["0", "3", "6", "7", "12"]
    ),
    "cnn channels last": Case(
        lambda: cnn(norm=True).to(memory_format=torch.channels_last),
        lambda: images()().to(memory_format=torch.channels_last),
        ["0", "3", "6", "7", "12"],
    ),
    "pre-bn mu=1": Case(partial(pre_bn, 1.0), rows(), ["0", "1", "2", "3", "4"]),
    "pre-bn mu=0": Case(partial(pre_bn, 0.0), rows(), ["0", "1", "2", "3", "4"]),
    "layernorm": Case(partial(normalized, lambda: nn.LayerNorm(8)), rows(), ["0", "3", "6", "9"]),
    "batchnorm": Case(partial(normalized, lambda: nn.BatchNorm1d(8)), rows(), ["0", "3", "6", "9"]),
    "batchnorm by its function": Case(FunctionalNorm, rows(), ["layers.0", "layers.1", "layers.2"]),
    "groupnorm": Case(
        partial(normalized, lambda: nn.GroupNorm(2, 8)), rows(), ["0", "3", "6", "9"]
    ),
    "rmsnorm": Case(partial(normalized, lambda: nn.RMSNorm(8)), rows(), ["0", "3", "6", "9"]),
    "resmlp": Case(resmlp, images(3, 3), ["stem.proj", "blocks.0", "blocks.1", "blocks.2", "head"]),
    "vit": Case(vit, images(3, 3), ["patch_embed.proj", "blocks.0", "blocks.1", "head"]),
    "densenet": Case(
        densenet,
        images(2, 3, 32),
        [
            "features.conv0",
            "features.pool0",
            "features.denseblock1",
            "features.transition1.conv",
            "features.denseblock2",
            "classifier",
        ],
    ),
    "functional residual": Case(
        FunctionalResidual,
        rows(),
        ["first", "layers.0", "layers.1", "layers.2", "layers.3", "layers.4", "head"],
    ),
    "bare parameters": Case(BareParameters, rows(), ["w1", "w2", "w3"]),
    "shared": Case(Shared, rows(), ["first", "again", "again (2)", "again (3)", "last"]),
    "two inputs": Case(
        TwoInputs,
        lambda: {
            "a": torch.randn(4, 5),
            "b": torch.randn(4, 4),
            "condition": torch.rand(4, 8),
        },
        ["mix", "hidden", "last"],
    ),
    "tuple boundary": Case(
        Parallel, rows(4, 5), ["a..stages.0.right", "stages.1", "stages.2", "head"]
    ),
    "gated": Case(Gated, rows(4, 8), ["layers.0", "layers.1", "layers.2"]),
    "parametrized": Case(parametrized, rows(), ["0", "2", "4", "6"]),
    "dropout": Case(
        lambda: nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 3)),
        rows(),
        ["0", "3"],
        random=True,
    ),
    "dict output": Case(
        lambda: Boxed(mlp(nn.Tanh), lambda y: {"ids": y.argmax(1), "logits": y}),
        rows(),
        [f"body.{name}" for name in MLP],
    ),
    "dataclass output": Case(
        lambda: Boxed(mlp(nn.Tanh), lambda y: Output("logits", y)),
        rows(),
        [f"body.{name}" for name in MLP],
    ),
    "language model": Case(
        TinyLanguageModel,
        lambda: torch.randint(11, (3, 5)),
        ["blocks.0", "blocks.1", "head"],
    ),
    "transformer": Case(
        lambda: nn.TransformerEncoder(
            nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), 2
        ),
        lambda: torch.randn(3, 4, 8),
        ["layers.0", "layers.1"],
    ),
    "sequence first": Case(
        lambda: nn.TransformerEncoder(
            nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0), 2, enable_nested_tensor=False
        ),
        lambda: torch.randn(4, 3, 8),
        ["layers.0", "layers.1"],
    ),
    "float64": Case(lambda: mlp(nn.Tanh).double(), lambda: rows()().double(), MLP),
    "bfloat16": Case(lambda: mlp(nn.Tanh).bfloat16(), lambda: rows()().bfloat16(), MLP),
}


class _Keeper:
    """An observer that keeps every tensor that passes."""

    def __init__(self) -> None:
        self.seen: list[tuple[Tensor, ...]] = []

    def enter(self, h: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        if not self.seen:
            self.seen.append(tuple(t.detach().clone() for t in h))
        return h

    def leave(
        self, index: int, h: tuple[Tensor, ...], out: tuple[Tensor, ...], tape: Any
    ) -> tuple[Tensor, ...]:
        self.seen.append(tuple(t.detach().clone() for t in out))
        return out


def boundaries(chain: critinit.Chain, inputs: Any) -> list[tuple[Tensor, ...]]:
    """``h^0, h^1, …, h^{L+1}`` of one run of the whole model."""
    keeper = _Keeper()
    with torch.no_grad():
        chain.walk(next(read_batches(chain.model, inputs)), keeper)
    return keeper.seen
