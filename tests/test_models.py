"""The built-in models: the same as timm's and torchvision's, drawn and cut as the paper says."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import timm
import torch
import torch.nn.functional as F
import torchvision
from asserts import assert_unbiased
from timm.models.mlp_mixer import Affine, MlpMixer
from timm.models.mlp_mixer import ResBlock as TimmBlock
from torch import Tensor, nn

import critinit
from critinit import models, theory
from critinit.models import OptionError, UnknownModelError
from critinit.models.resmlp import ResBlock

VGGS = [f"vgg{layers}{norm}" for layers in (11, 13, 16, 19) for norm in ("", "_bn")]
TINY: dict[str, dict[str, Any]] = {  # options that make each family small
    "mlp": {"width": 48, "depth": 3, "inputs": 20},
    "bn_mlp": {"width": 48, "depth": 3, "inputs": 20},
    "ln_mlp": {"width": 48, "depth": 3, "inputs": 20},
    "resmlp": {"width": 24, "depth": 2, "image": 16},
    "vgg11": {},
    "vgg11_bn": {},
}


def on_meta(make: Callable[[], nn.Module]) -> nn.Module:
    """The model without any values: shapes cost nothing."""
    with torch.device("meta"):
        return make()


def scrambled(model: nn.Module) -> nn.Module:
    """In double precision, with every parameter and statistic away from its initial value."""
    model = model.to_empty(device="cpu").double()
    for name, tensor in model.state_dict().items():
        if tensor.ndim > 1:
            tensor.normal_().mul_(math.sqrt(2 / tensor[0].numel()))
        elif name.endswith("num_batches_tracked"):
            tensor.zero_()
        else:
            tensor.uniform_(0.5, 1.5)
    return model


def assert_same_outputs(ours: nn.Module, theirs: nn.Module, shape: tuple[int, ...]) -> None:
    """In training and in evaluation, once ours has taken over their weights."""
    torch.manual_seed(0)
    ours.load_state_dict(scrambled(theirs).state_dict(), assign=True)
    x = torch.randn(shape, dtype=torch.double)
    for training in (True, False):
        torch.manual_seed(1)  # of the dropout
        expected = theirs.train(training)(x)
        torch.manual_seed(1)
        found = ours.train(training)(x)
        assert expected.std() > 0
        assert (found - expected).norm() <= 1e-12 * expected.norm()


def scales(model: nn.Module) -> list[Tensor]:
    """LayerScale of every branch."""
    return [p.detach() for n, p in model.named_parameters() if n.endswith(("ls1", "ls2"))]


def assert_deviation(values: Tensor, std: float, most: float | None = None) -> None:
    """Mean 0 and the given deviation, within 5 standard errors of a normal variable's.

    The largest value is just below ``most`` deviations, where that is given.
    """
    scaled = values.detach().double().flatten() / std
    assert scaled.mean().abs() < 5 / len(scaled) ** 0.5
    assert (scaled.square().mean() - 1).abs() < 5 * (2 / len(scaled)) ** 0.5
    if most is not None:
        assert 0.9 * most < scaled.abs().max() < most + 1e-3


def shapes(model: nn.Module) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in model.state_dict().items()}


def assert_same_draw(ours: nn.Module, theirs: nn.Module) -> None:
    expected = theirs.state_dict()
    for name, tensor in ours.state_dict().items():
        torch.testing.assert_close(tensor, expected[name], rtol=1e-5, atol=0, msg=name)


class TestVGG:
    """Against torchvision."""

    @pytest.mark.parametrize("name", VGGS)
    def test_parameters_are_torchvisions(self, name: str) -> None:
        theirs = on_meta(getattr(torchvision.models, name))
        ours = on_meta(partial(models.build, name, image=224, outputs=1000))
        assert list(shapes(ours).items()) == list(shapes(theirs).items())

    @pytest.mark.parametrize("name", VGGS)
    def test_features_are_torchvisions(self, name: str) -> None:
        theirs = on_meta(getattr(torchvision.models, name)).get_submodule("features")
        ours = on_meta(partial(models.build, name)).get_submodule("features")
        assert_same_outputs(ours, theirs, (2, 3, 64, 64))

    def test_whole_network_is_torchvisions(self) -> None:
        theirs = on_meta(torchvision.models.vgg11_bn)
        ours = on_meta(lambda: models.vgg11_bn(image=224, outputs=1000))
        assert_same_outputs(ours, theirs, (2, 3, 64, 64))

    @pytest.mark.slow
    def test_draw_is_torchvisions(self) -> None:
        torch.manual_seed(0)
        theirs = torchvision.models.vgg11_bn(num_classes=7)
        torch.manual_seed(0)
        assert_same_draw(models.vgg11_bn(head="mlp", outputs=7), theirs)

    @pytest.mark.parametrize("size", [32, 64])
    def test_linear_head_sees_the_average_of_each_feature(self, size: int) -> None:
        model, x = models.vgg11(sigma_w=1.4).double(), torch.randn(2, 3, size, size).double()
        expected = model.features(x).mean((2, 3)) @ model.classifier.weight.T
        torch.testing.assert_close(model(x), expected, rtol=1e-12, atol=1e-12)

    def test_head_follows_the_size_of_the_image_unless_it_is_given(self) -> None:
        def head(**options: Any) -> type[nn.Module]:
            return type(on_meta(lambda: models.vgg11(**options)).get_submodule("classifier"))

        assert head() is head(image=224, head="linear") is nn.Linear
        assert head(image=224) is head(head="mlp") is nn.Sequential


def timm_resmlp(
    image: int, patch: int, width: int, depth: int, ratio: int, **options: Any
) -> nn.Module:
    return MlpMixer(
        img_size=image,
        patch_size=patch,
        num_classes=options.get("outputs", 10),
        in_chans=options.get("channels", 3),
        num_blocks=depth,
        embed_dim=width,
        mlp_ratio=ratio,
        act_layer=options.get("activation", nn.GELU),
        block_layer=partial(TimmBlock, init_values=options.get("layerscale", 0.1)),
        norm_layer=Affine,
    )


class TestResMLP:
    """Against timm."""

    @pytest.mark.parametrize(
        ("ours", "theirs"),
        [
            (models.resmlp_s12, "resmlp_12_224"),
            (models.resmlp_s24, "resmlp_24_224"),
            (models.resmlp_s36, "resmlp_36_224"),
            (models.resmlp_b24, "resmlp_big_24_224"),
        ],
    )
    def test_parameters_are_timms(self, ours: Callable[..., nn.Module], theirs: str) -> None:
        expected = shapes(on_meta(partial(timm.create_model, theirs)))
        assert shapes(on_meta(partial(ours, image=224, outputs=1000))) == expected

    def test_s12_on_imagenet_is_timms(self) -> None:
        ours = on_meta(partial(models.resmlp_s12, image=224, outputs=1000))
        assert_same_outputs(ours, timm.create_model("resmlp_12_224"), (2, 3, 224, 224))

    def test_s12_on_cifar_is_timms(self) -> None:
        theirs = on_meta(partial(timm_resmlp, 32, 4, 384, 12, 4))
        assert_same_outputs(on_meta(models.resmlp_s12), theirs, (2, 3, 32, 32))

    @pytest.mark.parametrize(
        "options",
        [
            {"image": 12, "patch": 3, "width": 10, "depth": 3, "ratio": 2, "channels": 1},
            {"image": 16, "patch": 16, "width": 6, "depth": 1, "ratio": 1, "outputs": 3},
            {"image": 8, "patch": 2, "width": 4, "depth": 2, "ratio": 3, "activation": nn.ReLU},
        ],
    )
    def test_any_size_is_timms(self, options: dict[str, Any]) -> None:
        shape = (2, options.get("channels", 3), options["image"], options["image"])
        theirs = on_meta(partial(timm_resmlp, **options))
        assert_same_outputs(on_meta(partial(models.resmlp, **options)), theirs, shape)

    def test_derivative_of_a_block_is_the_printed_one(self) -> None:
        """Eq. resmlp_derivative, entry by entry, with an E of its own for each channel."""
        torch.manual_seed(0)
        n, d, mu = 4, 3, 0.7
        block = ResBlock(d, n, 4 * d, nn.Tanh(), 0.4, mu).double()
        for scale in (block.ls1, block.ls2):
            nn.init.uniform_(scale, 0.2, 0.6)
        h = torch.randn(1, n, d, dtype=torch.double)
        found = torch.autograd.functional.jacobian(block, h).squeeze()  # patch, channel, both
        tokens, channels = block.linear_tokens.weight, block.mlp_channels
        c = mu * h + block.ls1 * block.linear_tokens(h.transpose(1, 2)).transpose(1, 2)
        slope = 1 - channels.fc1(c)[0].tanh().square()  # patch, hidden
        through = torch.einsum(
            "i,ik,mk,kj->mij", block.ls2, channels.fc2.weight, slope, channels.fc1.weight
        )
        same_patch, same_channel = torch.eye(n).double(), torch.eye(d).double()
        expected = (
            torch.einsum("mij,j,mn->minj", through, block.ls1, tokens)
            + mu * torch.einsum("mij,mn->minj", through, same_patch)
            + mu * torch.einsum("i,ij,mn->minj", block.ls1, same_channel, tokens)
            + mu**2 * torch.einsum("ij,mn->minj", same_channel, same_patch)
        )
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)

    @pytest.mark.parametrize("make", [models.resmlp, timm_resmlp])
    def test_draw_is_timms(self, make: Callable[..., nn.Module]) -> None:
        """What is drawn, said of ours and of theirs."""
        torch.manual_seed(0)
        model = make(image=16, patch=4, width=96, depth=2, ratio=4, layerscale=0.3)
        for name, layer in model.named_modules():
            if name == "stem.proj":
                assert_deviation(layer.weight, 48**-0.5, most=2 / 0.8796)
                assert not layer.bias.any()
            elif name == "head":
                assert not layer.weight.any()
                assert not layer.bias.any()
            elif isinstance(layer, nn.Linear):
                fans = layer.in_features + layer.out_features
                assert_deviation(layer.weight, (2 / fans) ** 0.5, most=3**0.5)
                if "mlp_channels" in name:
                    assert_deviation(layer.bias, 1e-6)
                else:
                    assert not layer.bias.any()
        assert len(scales(model)) == 4
        assert all(torch.equal(p, torch.full_like(p, 0.3)) for p in scales(model))

    def test_skip_connections_have_strength_mu(self) -> None:
        model = models.resmlp(8, 2, image=8, mu=0.5, layerscale=0.0, sigma_w=1.0).double()
        x = torch.randn(2, 3, 8, 8).double()
        h = model.stem(x)
        torch.testing.assert_close(model.blocks(h), h / 2**4, rtol=1e-12, atol=0)


class TestPreNorm:
    """Against the paper's equations, written out."""

    @pytest.mark.parametrize("mu", [0.0, 0.7, 1.0])
    @pytest.mark.parametrize("norm", ["batch", "layer"])
    def test_follows_the_recurrence(self, mu: float, norm: str) -> None:
        torch.manual_seed(0)
        model = models.bn_mlp(
            12, 4, mu=mu, norm=norm, inputs=6, activation="tanh", sigma_w=1.3, sigma_b=0.4
        ).double()
        x = torch.randn(9, 6, dtype=torch.double)
        linears = [m for m in model.modules() if isinstance(m, nn.Linear)]
        dim = 0 if norm == "batch" else 1
        h = F.linear(x, linears[0].weight, linears[0].bias)
        for layer in linears[1:]:
            var, mean = torch.var_mean(h, dim, correction=0, keepdim=True)
            normalized = (h - mean) / (var + 1e-5).sqrt()
            out = F.linear(normalized.tanh(), layer.weight, layer.bias)
            h = out + mu * h if out.shape == h.shape else out
        torch.testing.assert_close(model(x), h, rtol=1e-12, atol=1e-12)

    def test_derivative_of_batchnorm_is_the_printed_one(self) -> None:
        """Entry by entry, between examples too."""
        torch.manual_seed(0)
        n, h = 5, torch.randn(5, 3, dtype=torch.double)
        norm = nn.BatchNorm1d(3, eps=1e-30, affine=False).double()
        found = torch.autograd.functional.jacobian(norm, h)  # example, channel, both
        projector = torch.eye(n).double() - 1 / n
        centred = projector @ h
        length = centred.norm(dim=0)
        own = math.sqrt(n) * (
            projector[:, :, None] / length - centred[:, None] * centred[None] / length**3
        )
        expected = torch.einsum("xyi,ij->xiyj", own, torch.eye(3).double())
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)

    @pytest.mark.parametrize("mu", [0.0, 1.0])
    def test_length_of_the_centred_batch_settles(self, mu: float) -> None:
        """Conjecture proj: at (|B| − 1)/|B| (K_xx − K_xx'), ever closer as the batch grows."""
        torch.manual_seed(0)
        width, depth = 1000, 4
        drawn: dict[str, Any] = {"mu": mu, "sigma_w": 1.2, "sigma_b": 0.3}
        model = models.bn_mlp(width, depth, inputs=width, outputs=width, **drawn)
        spreads = []
        for size in (16, 256):
            with torch.no_grad():
                h = model[:-3](torch.randn(size, width))  # before norm, activation and head
            lengths = h.var(0, correction=0)  # of each unit
            predicted = theory.bn_mlp(depth, batch_size=size, **drawn)
            difference = predicted.kernel[-2] * (1 - predicted.correlation[-2])
            expected = (size - 1) / size * difference
            error = 4 * float(lengths.std()) / math.sqrt(width) + expected * depth / width
            assert float(lengths.mean()) == pytest.approx(expected, abs=error)
            spreads.append(float(lengths.std()) / expected)
        assert spreads[0] == pytest.approx(math.sqrt(2 / 15), rel=0.1)  # of 15 squares
        assert spreads[1] < spreads[0] / 3

    @pytest.mark.parametrize("name", ["bn_mlp", "ln_mlp"])
    def test_affine(self, name: str) -> None:
        for affine in (True, False):
            names = [n for n, _ in models.build(name, affine=affine).named_parameters()]
            assert ("blocks.0.norm.weight" in names) is affine


class TestPartition:
    """The paper's blocks, found by `critinit.trace`."""

    @pytest.mark.parametrize("depth", [1, 2, 10])
    def test_mlp_has_a_block_for_each_layer(self, depth: int) -> None:
        chain = critinit.trace(models.mlp(6, depth, inputs=4), torch.randn(3, 4))
        assert chain.names == [str(1 + 2 * layer) for layer in range(depth + 1)]

    @pytest.mark.parametrize("mu", [0.0, 1.0])
    @pytest.mark.parametrize("name", ["bn_mlp", "ln_mlp"])
    def test_pre_norm_mlp_has_a_block_for_each_skip_connection(self, name: str, mu: float) -> None:
        model = models.build(name, width=6, depth=5, mu=mu, inputs=4)
        chain = critinit.trace(model, torch.randn(3, 4))
        assert chain.names == ["stem", *(f"blocks.{i}" for i in range(4)), "head"]

    def test_resmlp_s12_has_stem_blocks_and_head(self) -> None:
        chain = critinit.trace(models.resmlp_s12(), torch.randn(1, 3, 32, 32))
        assert chain.names == ["stem.proj", *(f"blocks.{i}" for i in range(12)), "head"]

    @pytest.mark.parametrize(("layers", "count"), [(11, 8), (13, 10), (16, 13), (19, 16)])
    def test_vgg_bn_has_a_block_for_each_composite_and_pool(self, layers: int, count: int) -> None:
        model = models.vgg(layers)
        ends = [
            name
            for name, module in model.features.named_children()
            if isinstance(module, nn.Conv2d | nn.MaxPool2d)
        ]
        assert len(ends) == count + 5
        chain = critinit.trace(model, torch.randn(2, 3, 32, 32))
        assert chain.names == [*(f"features.{name}" for name in ends), "classifier"]

    def test_plain_vgg_has_a_block_for_each_layer_with_weights(self) -> None:
        model = on_meta(lambda: models.vgg16(head="mlp")).to_empty(device="cpu")
        nn.init.zeros_(model.get_parameter("classifier.0.weight"))
        chain = critinit.trace(model.eval(), torch.randn(1, 3, 32, 32))
        layers = [n for n, m in model.named_modules() if isinstance(m, nn.Conv2d | nn.Linear)]
        assert chain.names == layers
        assert len(layers) == 16


class TestDraw:
    """Weights of variance σ_w²/fan_in, biases of variance σ_b²."""

    @pytest.mark.parametrize("name", TINY)
    def test_variances(self, name: str) -> None:
        torch.manual_seed(0)
        model = models.build(name, **TINY[name], sigma_w=1.3, sigma_b=0.2)
        drawn = 0
        for layer in model.modules():
            if isinstance(layer, nn.Linear | nn.Conv2d):
                fan_in, _ = nn.init._calculate_fan_in_and_fan_out(layer.weight)
                assert_deviation(layer.weight, 1.3 / fan_in**0.5)
                assert_deviation(layer.bias, 0.2)
                drawn += layer.weight.numel() + layer.bias.numel()
        others = {n: p for n, p in model.named_parameters() if constant(p)}
        assert drawn + sum(p.numel() for p in others.values()) == sum(
            p.numel() for p in model.parameters()
        )

    @pytest.mark.parametrize("name", TINY)
    def test_zero_sigma_b_means_no_biases(self, name: str) -> None:
        model = models.build(name, **TINY[name], sigma_w=1.0)
        assert not any(p.any() for n, p in model.named_parameters() if n.endswith("bias"))

    def test_default_of_vgg_is_kaimings_by_fan_out(self) -> None:
        torch.manual_seed(0)
        model = models.vgg11_bn(outputs=1000)
        for layer in model.modules():
            if isinstance(layer, nn.Conv2d):
                assert_deviation(layer.weight, (2 / (9 * layer.out_channels)) ** 0.5)
                assert not layer.bias.any()
        assert_deviation(model.classifier.weight, 0.01)
        assert not model.classifier.bias.any()

    @pytest.mark.parametrize("name", ["mlp", "bn_mlp", "ln_mlp"])
    def test_default_is_torchs(self, name: str) -> None:
        model = models.build(name, **TINY[name])
        for layer in model.modules():
            if isinstance(layer, nn.Linear):
                bound = layer.in_features**-0.5
                assert 0.9 * bound < float(layer.weight.detach().abs().max()) <= bound

    def test_layerscale(self) -> None:
        for make, value in ((models.resmlp_s12, 0.1), (models.resmlp_s24, 1e-5)):
            model = make(width=8, image=8)
            assert len(scales(model)) == 2 * len(model.blocks)
            assert all(torch.equal(p, torch.full_like(p, value)) for p in scales(model))


def constant(parameter: Tensor) -> bool:
    """What no draw touches: γ, β, LayerScale."""
    return bool(parameter.min() == parameter.max())


def draws(make: Callable[[], nn.Module], x: Tensor, count: int = 20) -> Tensor:
    """J of every block (columns) of ``count`` networks (rows)."""
    torch.manual_seed(0)
    seeds = [torch.Generator().manual_seed(seed) for seed in range(count)]  # of the probes
    return torch.stack(
        [critinit.measure(make(), x, generator=seed).apjn.double() for seed in seeds]
    )


class TestJ:
    """Measured J where it is known in closed form."""

    @pytest.mark.parametrize("sigma_w", [1.0, 2**0.5, 2.0])
    def test_relu_mlp(self, sigma_w: float) -> None:
        """σ_w²/2 on average, at any width, since zero biases leave half of the units active."""
        make = partial(models.mlp, 100, 4, inputs=100, outputs=100, sigma_w=sigma_w)
        found = draws(make, torch.randn(8, 100))[:, 1:]
        assert_unbiased(found, torch.full((4,), sigma_w**2 / 2).double())

    @pytest.mark.parametrize("mu", [0.6, 1.0])
    @pytest.mark.parametrize("scale", [0.01, 0.5, 1.0])
    def test_relu_resmlp(self, mu: float, scale: float) -> None:
        """``(μ² + E²σ_w²)(μ² + E²σ_w⁴/2)``: 1 for a small E and μ = 1."""
        make = partial(
            models.resmlp, 24, 3, image=16, mu=mu, layerscale=scale, activation="relu", sigma_w=1.2
        )
        found = draws(make, torch.randn(8, 3, 16, 16))[:, 1:-1]
        expected = (mu**2 + scale**2 * 1.2**2) * (mu**2 + scale**2 * 1.2**4 / 2)
        assert_unbiased(found, torch.full((3,), expected).double())

    def test_resmlp_s12_is_nearly_critical_as_published(self) -> None:
        """With Xavier's variances, fan_in times which is 1, 0.4 and 1.6, and ¼ ≤ E[φ'²] < 1.13."""
        torch.manual_seed(0)
        profile = critinit.measure(models.resmlp_s12(), torch.randn(4, 3, 32, 32), probes=2)
        found, error = profile.apjn[1:-1], profile.apjn_se[1:-1]
        branch = 0.1**2 * 0.4 * 1.6
        finite = 2 * 0.1 / 64  # E times the trace of the layer across 64 patches, per patch, twice
        assert (found > (1 + 0.1**2) * (1 + branch / 4) - 4 * (error + finite)).all()
        assert (found < (1 + 0.1**2) * (1 + branch * 1.13) + 4 * (error + finite)).all()
        assert (error < 0.01).all()
        assert float(profile.apjn[-1]) == 0  # the head of zeros

    @pytest.mark.parametrize("mu", [0.5, 1.0])
    @pytest.mark.parametrize("name", ["bn_mlp", "ln_mlp"])
    def test_without_weights_the_skip_connection_is_left(self, name: str, mu: float) -> None:
        model = models.build(name, **TINY[name], mu=mu, sigma_w=0.0, sigma_b=1.0)
        x = torch.randn(8, 20)
        found = critinit.measure(model, x, method="exact").apjn[1:-1]
        torch.testing.assert_close(found, torch.full_like(found, mu**2))

    def test_pre_bn_relu_mlp_without_skip_connections_is_chaotic(self) -> None:
        """``π/(π−1)`` at any σ_w (conjecture bn), up to a few times 1/|B|."""
        batch = 128
        make = partial(models.bn_mlp, 200, 6, mu=0.0, inputs=64, sigma_w=0.7)
        found = draws(make, torch.randn(batch, 64), count=8)[:, 3:-1].mean(1)
        off = (found.mean() - math.pi / (math.pi - 1)).abs()
        assert off < 4 * found.std() / len(found) ** 0.5 + 4 / batch


class TestActivations:
    """By name, class, layer or function."""

    @pytest.mark.parametrize(
        ("name", "function"),
        [
            ("linear", lambda h: h),
            ("relu", F.relu),
            ("leaky_relu", F.leaky_relu),
            ("elu", F.elu),
            ("selu", F.selu),
            ("gelu", F.gelu),
            ("silu", F.silu),
            ("softplus", F.softplus),
            ("sigmoid", torch.sigmoid),
            ("tanh", torch.tanh),
            ("erf", torch.erf),
            ("sin", torch.sin),
            ("GELU", F.gelu),
            (nn.Tanh, torch.tanh),
            (lambda: nn.LeakyReLU(0.3), lambda h: F.leaky_relu(h, 0.3)),
            (nn.LeakyReLU(0.3), lambda h: F.leaky_relu(h, 0.3)),
        ],
    )
    def test_is_applied(self, name: Any, function: Callable[[Tensor], Tensor]) -> None:
        model, x = models.mlp(5, 1, inputs=4, activation=name), torch.randn(3, 4)
        torch.testing.assert_close(model(x), model[3](function(model[1](x))))

    def test_layers_with_parameters_are_not_shared(self) -> None:
        model = models.mlp(5, 4, activation=nn.PReLU())
        slopes = [p for p in model.parameters() if p.numel() == 1]
        assert len(slopes) == 4


class TestRegistry:
    """Names, options, and the batch that a model takes."""

    @pytest.mark.parametrize("name", models.names())
    def test_every_model_takes_its_input_shape(self, name: str) -> None:
        entry = models.find(name)
        model = on_meta(partial(entry.build, outputs=7))
        assert model(torch.empty(2, *entry.input_shape(), device="meta")).shape == (2, 7)

    @pytest.mark.parametrize(
        ("name", "shape"),
        [
            ("mlp", (64,)),
            ("bn_mlp", (1, 28, 28)),
            ("vgg11", (1, 48, 48)),
            ("resmlp", (1, 28, 28)),
            ("resmlp_s12", (3, 224, 224)),
        ],
    )
    def test_options_that_fit_the_data(self, name: str, shape: tuple[int, ...]) -> None:
        entry = models.find(name)
        options = entry.fitting(shape)
        assert math.prod(entry.input_shape(**options)) == math.prod(shape)
        model = on_meta(partial(entry.build, **options))
        assert model(torch.empty(2, *shape, device="meta")).shape == (2, 10)

    def test_input_shape_follows_the_options(self) -> None:
        assert models.find("vgg16").input_shape(image=64, channels=1) == (1, 64, 64)
        assert models.find("ln_mlp").input_shape(inputs=5) == (5,)

    def test_every_public_model_has_a_name(self) -> None:
        public = {n for n in models.__all__ if n.islower()} - {"names", "find", "build"}
        assert public == set(models.names())

    def test_options_show_their_defaults(self) -> None:
        options = models.find("resmlp_s24").options
        assert options["depth"].default == 24
        assert options["layerscale"].default == 1e-5
        assert options["sigma_w"].annotation == float | None


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "misspelt model": (lambda: models.build("resmpl_s12"), "Did you mean 'resmlp_s12'"),
    "upper case": (lambda: models.find("VGG19_BN"), "Did you mean 'vgg19_bn'"),
    "unlike any model": (lambda: models.find("zzz"), "There are mlp, bn_mlp, "),
    "misspelt option": (lambda: models.build("mlp", widht=3), "Did you mean 'width'"),
    "no such option": (lambda: models.find("vgg16").input_shape(zz=3), "has no option 'zz'"),
    "not square": (lambda: models.find("vgg16").fitting((3, 32, 40)), r"\(3, 32, 40\)"),
    "a vector": (lambda: models.find("resmlp").fitting((784,)), r"\(784,\)"),
    "no layers": (lambda: models.mlp(depth=0), "depth=0"),
    "half a unit": (lambda: models.bn_mlp(width=2.5), "width=2.5"),
    "text": (lambda: models.resmlp(image="32"), "image='32'"),
    "negative sigma_w": (lambda: models.mlp(sigma_w=-1.0), "sigma_w=-1.0"),
    "negative sigma_b": (lambda: models.mlp(sigma_w=1.0, sigma_b=-0.1), "sigma_b=-0.1"),
    "infinite sigma_w": (lambda: models.vgg(sigma_w=math.inf), "sigma_w=inf"),
    "sigma_b alone": (lambda: models.resmlp(sigma_b=0.1), "Give sigma_w too"),
    "NaN": (lambda: models.bn_mlp(mu=math.nan), "mu=nan"),
    "norm": (lambda: models.bn_mlp(norm="group"), "norm='group'"),
    "layers of VGG": (lambda: models.vgg(12), "layers=12"),
    "small image": (lambda: models.vgg(image=28), "image=28"),
    "head": (lambda: models.vgg(head="none"), "head='none'"),
    "dropout": (lambda: models.vgg(dropout=2.0), "dropout=2.0"),
    "uneven patches": (lambda: models.resmlp(image=30), "patches of 4"),
    "no patch": (lambda: models.resmlp(patch=0), "patch=0"),
    "activation": (lambda: models.mlp(activation="geluu"), "Did you mean 'gelu'"),
    "function": (lambda: models.mlp(activation=F.gelu), "without arguments"),
    "no activation": (lambda: models.mlp(activation=dict), "no layer"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused(case: str) -> None:
    call, message = REFUSED[case]
    with pytest.raises((OptionError, UnknownModelError), match=message):
        call()


def test_needs_neither_timm_nor_torchvision() -> None:
    code = """
import sys
from critinit import models
models.vgg11(), models.resmlp(8, 1)
assert not {"timm", "torchvision"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_narrow_vgg_has_all_widths_in_proportion() -> None:
    full, narrow = (
        [m.out_channels for m in on_meta(build).modules() if isinstance(m, nn.Conv2d)]
        for build in (models.vgg19, partial(models.vgg19, width=16))
    )
    assert narrow == [width // 4 for width in full]
    classifier = on_meta(partial(models.vgg11, width=4, head="mlp")).classifier
    assert classifier[0].in_features == 32 * 7 * 7
    with pytest.raises(OptionError, match="width=0"):
        models.vgg(11, width=0)
