"""What each initialization makes of a network, and what it leaves alone."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import pytest
import timm
import torch
import torchvision
from asserts import StateOf, assert_unbiased
from cases import CASES
from torch import Tensor, nn
from torch.nn.utils import parametrizations

import critinit
from critinit import baselines
from critinit.baselines import NotApplicableError, UnknownBaselineError, autoinit_, lsuv_
from critinit.models import bn_mlp, mlp, resmlp, vgg


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def tiny_resmlp() -> nn.Module:
    return resmlp(16, 3, image=16)


def images() -> Tensor:
    return torch.randn(8, 3, 16, 16, generator=seeded(1))


def convolutions() -> nn.Module:
    """In-place activations and BatchNorm with statistics of its own."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, bias=False),
        nn.ReLU(inplace=True),
        nn.Conv2d(8, 8, 3, groups=2),
        nn.BatchNorm2d(8),
        nn.ReLU(inplace=True),
        nn.Dropout(0.1),
        nn.Flatten(),
        nn.Linear(8 * 12 * 12, 10),
    )


APPLICABLE = [(name, tiny_resmlp) for name in baselines.names()] + [
    (name, convolutions)
    for name in baselines.names()
    if name not in ("original", "fixup", "skipinit")
]


@pytest.mark.parametrize(("name", "make"), APPLICABLE)
def test_only_the_parameters_change(name: str, make: Callable[[], nn.Module]) -> None:
    model, x = make(), images()
    for p in list(model.parameters())[2:]:
        p.grad = torch.randn_like(p)
    model[1].eval() if isinstance(model, nn.Sequential) else model.eval()
    fixed = next(model.parameters()).requires_grad_(False)
    frozen = fixed.detach().clone()
    before = StateOf(model)
    baselines.find(name)(model, x)
    assert torch.equal(fixed, frozen), "a frozen parameter stays"
    changed = False
    for key, p in model.named_parameters():
        tensor, value, *rest = before.values[key]
        changed |= not torch.equal(p, value)
        before.values[key] = (tensor, p.detach().clone(), *rest)
    assert changed
    before.assert_same()


@pytest.mark.parametrize("case", list(CASES))
@pytest.mark.parametrize("name", ["autoinit", "lsuv"])
def test_every_kind_of_network(name: str, case: str) -> None:
    model, inputs = CASES[case].build()
    buffers = {  # but for what spectral_norm keeps of the weight, which follows it
        key: b.clone() for key, b in model.named_buffers() if "parametrizations" not in key
    }
    baselines.find(name)(model, inputs)
    assert all(bool(torch.isfinite(p).all()) for p in model.parameters())
    assert all(torch.equal(model.get_buffer(key), b) for key, b in buffers.items())


@pytest.mark.parametrize("name", baselines.names())
def test_the_generator_is_the_only_source_of_randomness(name: str) -> None:
    def drawn(seed: int | None, before: int) -> Tensor:
        torch.manual_seed(before)
        model = tiny_resmlp()
        baselines.find(name)(model, images(), seeded(seed) if seed is not None else None)
        return model.blocks[1].mlp_channels.fc1.weight.detach()

    assert torch.equal(drawn(7, 0), drawn(7, 1))
    assert torch.equal(drawn(None, 0), drawn(0, 1))
    assert not torch.equal(drawn(7, 0), drawn(8, 0))


@pytest.mark.parametrize("name", ["lsuv", "autoinit"])
@pytest.mark.parametrize("fault", [ValueError("here"), KeyboardInterrupt()])
def test_a_fault_leaves_the_model_as_it_was(name: str, fault: BaseException) -> None:
    model = convolutions()

    def fail(*_: object) -> None:
        raise fault

    model[5].register_forward_pre_hook(fail)
    before = StateOf(model)
    with pytest.raises((critinit.CritinitError, type(fault))):
        baselines.find(name)(model, images())
    before.assert_same()


def lsuv_slowly(model: nn.Module, x: Tensor, tol: float = 0.01) -> None:
    """The published algorithm: the whole network runs anew for every look at a layer."""
    critinit.reset_(model, "orthogonal", bias_std=0, generator=seeded(0))
    for layer in model.modules():
        if not isinstance(layer, nn.Linear | nn.Conv2d):
            continue
        for _ in range(10):
            seen: list[Tensor] = []
            with layer.register_forward_hook(lambda _m, _a, out, seen=seen: seen.append(out * 1)):
                copied = copy.deepcopy(model)  # BatchNorm keeps its statistics, dropout its state
                with torch.random.fork_rng():
                    copied(x)
            variance = float(seen[0].detach().var())
            if abs(variance - 1) <= tol:
                break
            with torch.no_grad():
                layer.weight.div_(variance**0.5)


@pytest.mark.parametrize("make", [convolutions, lambda: mlp(24, 5, inputs=768), tiny_resmlp])
def test_lsuv_is_the_published_algorithm(make: Callable[[], nn.Module]) -> None:
    model, x = make(), 3 + 5 * images()
    for m in model.modules():
        m.train(not isinstance(m, nn.Dropout))
    slow = copy.deepcopy(model)
    lsuv_slowly(slow, x)
    lsuv_(model, x)
    for (name, fast), reference in zip(model.named_parameters(), slow.parameters(), strict=True):
        torch.testing.assert_close(fast, reference, rtol=1e-4, atol=1e-6, msg=name)


def test_lsuv_gives_every_layer_unit_variance_the_first_too() -> None:
    model, x = convolutions(), 3 + 5 * images()
    model[5].eval()
    lsuv_(model, x)
    first = nn.functional.conv2d(x, model[0].weight)
    assert float(first.detach().var()) == pytest.approx(1, abs=0.01)
    assert float(model(x).detach().var()) == pytest.approx(1, abs=0.01)


def test_lsuv_through_parametrizations_ties_and_dead_layers() -> None:
    tied = nn.Linear(12, 12)
    dead = nn.Linear(12, 12)
    normed = parametrizations.weight_norm(nn.Linear(12, 12))
    again = nn.Linear(12, 12)
    again.weight = tied.weight
    model = nn.Sequential(normed, tied, nn.Tanh(), again, nn.Softshrink(1e9), dead)
    x = torch.randn(50, 12)
    lsuv_(model, x)
    with torch.no_grad():
        assert float(normed(x).var()) == pytest.approx(1, abs=0.01)
        assert float(tied(normed(x)).var()) == pytest.approx(1, abs=0.01)
    weight = dead.weight.detach()
    torch.testing.assert_close(weight @ weight.T, torch.eye(12)), "as it was drawn"


def square(model: nn.Module, name: str) -> Tensor:
    return model.get_parameter(name).detach().square().reshape(-1, 1)


@pytest.mark.parametrize(
    ("name", "variance"),
    [
        ("kaiming", {"0.weight": 2 / 27, "2.weight": 2 / 36, "7.weight": 2 / 1152}),
        ("kaiming-fan-out", {"0.weight": 2 / 72, "2.weight": 2 / 36, "7.weight": 2 / 10}),
        ("default", {"0.weight": 1 / 81, "2.weight": 1 / 108, "7.weight": 1 / 3456}),
    ],
)
def test_variances(name: str, variance: dict[str, float]) -> None:
    model = convolutions()
    baselines.find(name)(model, images())
    for key, expected in variance.items():
        assert_unbiased(square(model, key), torch.tensor([expected]))


@pytest.mark.parametrize(("name", "gain"), [("orthogonal", 1), ("orthogonal-relu", 2**0.5)])
def test_orthogonal_has_its_gain(name: str, gain: float) -> None:
    model = mlp(12, 3, inputs=12)
    baselines.find(name)(model, torch.randn(2, 12))
    weight = model[3].weight.detach()
    torch.testing.assert_close(weight @ weight.T, gain**2 * torch.eye(12))
    assert not model[3].bias.any()


def test_transposed_convolutions_and_embeddings_have_their_own_fan_out() -> None:
    model = nn.Sequential(nn.Embedding(40, 30), nn.ConvTranspose1d(6, 50, 4))
    baselines.find("kaiming-fan-out")(model, None)
    assert_unbiased(square(model, "0.weight"), torch.ones(1))
    assert_unbiased(square(model, "1.weight"), torch.tensor([2 / 200]))


@pytest.mark.parametrize("library", ["critinit", "timm"])
def test_original_resmlp_is_as_timm_draws_it(library: str) -> None:
    def timms() -> nn.Module:
        return timm.models.mlp_mixer.MlpMixer(
            num_classes=10,
            img_size=32,
            patch_size=8,
            num_blocks=12,
            embed_dim=48,
            mlp_ratio=4,
            block_layer=timm.models.mlp_mixer.ResBlock,
            norm_layer=timm.models.mlp_mixer.Affine,
        )

    model = timms() if library == "timm" else resmlp(48, 12, image=32, patch=8, layerscale=1.0)
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(7)
    baselines.find("original")(model, None)
    reference = timms()
    for name, expected in reference.named_parameters():
        drawn = model.get_parameter(name).detach()
        if name.endswith(("ls1", "ls2")):
            assert bool((drawn == 0.1).all()), name
        elif expected.detach().std() == 0:
            assert torch.equal(drawn, expected), name
        elif expected.ndim > 1:
            ratio = float(drawn.square().mean() / expected.detach().square().mean())
            assert ratio == pytest.approx(1, rel=8 * (2 / drawn.numel()) ** 0.5), name
        else:
            assert float(drawn.abs().max()) < 1e-5, name


@pytest.mark.parametrize("depth", [12, 24, 36])
def test_deeper_resmlps_have_a_smaller_layerscale(depth: int) -> None:
    model = resmlp(8, depth, image=16, layerscale=1.0)
    baselines.find("original")(model, None)
    assert float(model.blocks[3].ls2.detach()[0]) == pytest.approx(
        {12: 0.1, 24: 1e-5, 36: 1e-6}[depth]
    )


@pytest.mark.parametrize("library", ["critinit", "torchvision"])
def test_original_vgg_is_torchvisions(library: str) -> None:
    model = vgg(11, batchnorm=True, image=32) if library == "critinit" else None
    if model is None:
        model = torchvision.models.vgg11_bn(num_classes=2, init_weights=False)
        model.classifier = nn.Linear(512, 10)
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(7)
    baselines.find("original")(model, None)
    assert_unbiased(square(model, "features.4.weight"), torch.tensor([2 / (128 * 9)]))
    linear = "classifier.weight"
    assert_unbiased(square(model, linear), torch.tensor([1e-4]))
    assert not model.get_parameter("features.4.bias").any()
    assert bool((model.get_parameter("features.1.weight") == 1).all())
    assert not model.get_parameter("features.1.bias").any()


def test_fixup_starts_as_the_identity_with_small_branches() -> None:
    model = tiny_resmlp()
    baselines.find("fixup")(model, None)
    h = torch.randn(2, 16, 16)
    with torch.no_grad():
        assert torch.equal(model.blocks(h), h)
        assert not model(images()).any(), "the classifier is zero"
    assert_unbiased(
        square(model, "blocks.1.mlp_channels.fc1.weight"), torch.tensor([2 / 16 / 6])
    )  # six branches, of which those across channels have two layers: 6^(-1/2)² = 1/6


def test_fixup_of_a_resnet_without_normalization() -> None:
    plain = torchvision.models.resnet.ResNet(
        torchvision.models.resnet.Bottleneck, [1, 2, 1, 1], norm_layer=lambda width: nn.Identity()
    )
    baselines.find("fixup")(plain, None)
    assert not plain.layer2[1].conv3.weight.any()
    assert_unbiased(
        square(plain, "layer2.1.conv2.weight"), torch.tensor([2 / (9 * 128) * 5**-0.5])
    )  # five branches of three layers: 5^(-1/4)²


def test_skipinit_starts_as_the_identity_and_trains() -> None:
    model = bn_mlp(16, 3, inputs=16)
    baselines.find("skipinit")(model, None)
    h, blocks = torch.randn(4, 16), [m for m in model.modules() if hasattr(m, "mu")]
    for block in blocks:
        torch.testing.assert_close(block(h), h)
    model(h).square().mean().backward()
    gain = blocks[0].linear.weight_multiplier
    assert isinstance(gain, nn.Parameter)
    assert float(gain.detach()) == 0
    assert float(gain.grad) != 0


def test_skipinit_uses_the_gain_that_is_there() -> None:
    resnet = torchvision.models.resnet18()
    baselines.find("skipinit")(resnet, None)
    assert not resnet.layer3[1].bn2.weight.any()
    assert bool((resnet.layer3[1].bn1.weight == 1).all())
    assert not any("multiplier" in name for name in resnet.state_dict())
    vit = timm.create_model("test_vit")
    baselines.find("skipinit")(vit, None)
    h = torch.randn(2, 5, vit.embed_dim)
    torch.testing.assert_close(vit.blocks(h), h)


def heterogeneous(width: int) -> Tensor:
    """Inputs of different sizes, as images are."""
    sizes = torch.linspace(0.3, 1.7, 64).unsqueeze(1)
    return sizes * torch.randn(64, width, generator=seeded(0))


def total(model: nn.Module, x: Tensor) -> float:
    """The logarithm of the ratio of the whole Jacobian to the product of the blocks' J."""
    return abs(math.log(critinit.measure(model, x, probes=4).factorization().ratio))


@pytest.mark.parametrize(
    ("activation", "low", "high"), [("relu", 0.0, 0.03), ("tanh", 0.0, 0.03), ("gelu", 0.2, 1.0)]
)
def test_autoinit_draws_biases_as_small_as_will_do(
    activation: str, low: float, high: float
) -> None:
    model, x = mlp(128, 40, inputs=64, activation=activation), heterogeneous(64)
    result = autoinit_(model, x)
    assert result.after.is_critical()
    assert total(model, x) < math.log(10) + 0.3
    bias_std = float(model[3].bias.detach().std() / result.multipliers["3.bias"])
    assert low < bias_std < high


def test_every_block_critical_is_not_enough() -> None:
    """Why autoinit looks at the whole network: GELU with small biases, J = 1 everywhere."""
    model, x = mlp(128, 40, inputs=64, activation="gelu"), heterogeneous(64)
    result = autoinit_(model, x, draws=((1.0, 0.02),))
    assert result.after.is_critical()
    assert total(model, x) > math.log(100)


def test_autoinit_keeps_the_best_where_none_will_do() -> None:
    x = heterogeneous(64)
    off = []
    worse, better = (1.0, 0.02), (3.0, 0.0)
    for draws in ((worse,), (worse, better), (better, worse)):
        torch.manual_seed(0)
        model = mlp(128, 40, inputs=64, activation="gelu")
        result = autoinit_(model, x, seeded(0), draws=draws)
        off.append(abs(math.log(result.after.factorization().ratio)))
        after = critinit.measure(model, x, probes=1)
        torch.testing.assert_close(after.kernel, result.after.kernel), "the weights are its own"
    assert min(off) > math.log(10)
    assert max(off[1:]) < off[0] - 2


@pytest.mark.parametrize(
    ("name", "make", "words"),
    [
        ("fixup", lambda: mlp(8, 2), "Known are ResBlock"),
        ("fixup", lambda: bn_mlp(8, 2), "normalization"),
        ("skipinit", lambda: bn_mlp(8, 2, mu=0.0), "Known are ResBlock"),
        ("original", lambda: mlp(8, 2), "ResMLP and VGG, not for Sequential"),
    ],
)
def test_it_says_where_it_does_not_apply(
    name: str, make: Callable[[], nn.Module], words: str
) -> None:
    model = make()
    before = StateOf(model)
    with pytest.raises(NotApplicableError, match=words):
        baselines.find(name)(model, None)
    before.assert_same()


@pytest.mark.parametrize("pooled", [True, False])
def test_autoinit_does_not_make_logits_huge_behind_a_pool(pooled: bool) -> None:
    layers = [nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU()]
    end = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)]
    plain = [nn.Flatten(), nn.Linear(16 * 12 * 12, 10)]
    model = nn.Sequential(*layers, *(end if pooled else plain))
    result = autoinit_(model, images())
    hidden, head = result.after.apjn[1:-1].log().abs(), result.after.apjn[-1].log().abs()
    assert float(hidden.max()) < 0.1
    assert (float(head) > 1) is pooled, "J of the head is tuned where nothing speaks against it"
    assert float(result.after.kernel_ratio[-1]) < 2
    tuned = critinit.tuned(model, images(), loss=critinit.JKL(input=False))
    ratio = critinit.measure(tuned, images()).kernel_ratio[-1]
    assert (float(ratio) > 2) is pooled, "it would be huge"


def test_autoinit_without_a_draw() -> None:
    with pytest.raises(critinit.InputError, match="draws is empty"):
        autoinit_(mlp(8, 2), torch.randn(4, 784), draws=())


def test_a_misspelt_name() -> None:
    with pytest.raises(UnknownBaselineError, match=r"no initialization 'lsvu'.*'lsuv'"):
        baselines.find("lsvu")
