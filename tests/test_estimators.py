"""Every fast estimator against the full Jacobian, and that against finite differences."""

from __future__ import annotations

import math

import pytest
import torch
from asserts import assert_unbiased
from cases import CASES, boundaries
from torch import nn

import critinit

FIXED = [name for name, case in CASES.items() if not case.random]
DRAWS = 32


@pytest.mark.parametrize("name", FIXED)
@pytest.mark.parametrize(
    ("method", "noise"), [("vjp", "gaussian"), ("vjp", "rademacher"), ("jvp", "gaussian")]
)
def test_estimators_are_unbiased(name: str, method: str, noise: str) -> None:
    model, inputs = CASES[name].build()
    exact = critinit.measure(model, inputs, method="exact")
    chain = critinit.trace(model, inputs)
    generator = torch.Generator().manual_seed(1)
    draws = [
        critinit.measure(chain, inputs, method=method, noise=noise, generator=generator)
        for _ in range(DRAWS)
    ]
    samples = torch.stack([draw.apjn for draw in draws])
    assert_unbiased(samples, exact.apjn)
    for draw in draws:
        torch.testing.assert_close(draw.kernel, exact.kernel)
        torch.testing.assert_close(draw.correlation, exact.correlation, equal_nan=True)


@pytest.mark.parametrize("name", ["mlp tanh", "cnn batchnorm", "pre-bn mu=1", "vit", "gated"])
def test_exact_agrees_with_finite_differences(name: str) -> None:
    model, inputs = CASES[name].build()
    model, inputs = model.double(), inputs.double()
    exact = critinit.measure(model, inputs, method="exact")
    chain = critinit.trace(model, inputs)
    kept = boundaries(chain, inputs)
    step = 1e-5
    for i in range(len(chain)):
        (h,) = kept[i]
        squares, size = 0.0, kept[i + 1][0].numel()
        for component in range(h.numel()):
            e = torch.zeros_like(h).flatten()
            e[component] = step
            with torch.no_grad():
                up, down = chain.run(i, h + e.view_as(h)), chain.run(i, h - e.view_as(h))
            squares += float(((up - down) / (2 * step)).square().sum())
        assert squares / size == pytest.approx(float(exact.apjn[i]), rel=1e-5, abs=1e-9)


def test_normalization_is_by_the_output_width() -> None:
    """For a linear layer J = ‖W‖²_F / N_{l+1}, whatever the batch."""
    layer = nn.Linear(5, 9)
    expected = float(layer.weight.detach().square().sum()) / 9
    for examples in (1, 4):
        profile = critinit.measure(layer, torch.randn(examples, 5), method="exact")
        assert float(profile.apjn[0]) == pytest.approx(expected, rel=1e-5)


def test_batchnorm_crosses_examples() -> None:
    """The exact J of a lone BatchNorm, cross-example terms included, in closed form.

    The derivative is (P − x̂x̂ᵀ/|B|)/σ for each feature; its squared norm is (|B| − 2)/σ².
    """
    examples, width = 10, 7
    model = nn.Sequential(nn.BatchNorm1d(width, eps=1e-12), nn.Linear(width, width, bias=False))
    with torch.no_grad():
        model[1].weight.copy_(torch.eye(width))
    x = torch.randn(examples, width, dtype=torch.float64)
    variance = x.var(0, unbiased=False)
    expected = float(((examples - 2) / variance).sum()) / (examples * width)
    profile = critinit.measure(model.double(), x, method="exact")
    assert float(profile.apjn[0]) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", ["mlp tanh", "cnn batchnorm", "vit"])
def test_the_standard_error_covers_the_probe_noise(name: str) -> None:
    """It is an upper estimate: it also holds the spread of the true J over examples."""
    model, _ = CASES[name].build()
    shape = {"mlp tanh": (32, 6), "cnn batchnorm": (32, 2, 8, 8), "vit": (16, 3, 8, 8)}[name]
    inputs = torch.randn(shape)
    exact = critinit.measure(model, inputs, method="exact").apjn
    chain = critinit.trace(model, inputs)
    generator = torch.Generator().manual_seed(2)
    draws = [critinit.measure(chain, inputs, generator=generator) for _ in range(64)]
    error = torch.stack([d.apjn for d in draws]) - exact
    claimed = torch.stack([d.apjn_se for d in draws])
    spread = error.square().mean(0).sqrt()
    # signs measure a max-pool without any noise: that leaves rounding
    assert (spread < 1.3 * claimed.mean(0) + 1e-6 * exact).all()
    assert (claimed.mean(0) < 5 * spread + 0.2 * exact).all()


def test_more_probes_shrink_the_error() -> None:
    model, inputs = CASES["mlp one example"].build()
    assert math.isnan(critinit.measure(model, inputs).apjn_se[1])
    few = critinit.measure(model, inputs, probes=50).apjn_se
    many = critinit.measure(model, inputs, probes=5000).apjn_se
    assert ((few / many) > 5).all()
    assert ((few / many) < 20).all()


def test_several_batches_are_averaged() -> None:
    model, _ = CASES["mlp tanh"].build()
    batches = [torch.randn(8, 6) * scale for scale in (0.5, 1.0, 2.0)]
    together = critinit.measure(model, batches, method="exact")
    each = [critinit.measure(model, batch, method="exact") for batch in batches]
    torch.testing.assert_close(together.apjn, torch.stack([p.apjn for p in each]).mean(0))
    torch.testing.assert_close(together.kernel, torch.stack([p.kernel for p in each]).mean(0))
    between = torch.stack([p.apjn for p in each]).std(0) / 3**0.5
    assert (together.apjn_se >= between - 1e-12).all()
    assert together.batches == 3


def test_correlation_shows_collapse() -> None:
    """Ten ReLU layers pull all inputs together; J alone does not show it."""
    torch.manual_seed(0)
    layers = []
    for _ in range(10):
        layers += [nn.Linear(256, 256, bias=False), nn.ReLU()]
        nn.init.normal_(layers[-2].weight, std=(2 / 256) ** 0.5)
    x = torch.randn(16, 256)
    profile = critinit.measure(nn.Sequential(*layers), x)
    assert float(profile.correlation[0]) == pytest.approx(0, abs=0.05)
    assert float(profile.correlation[-1]) > 0.85
    unit = x / x.norm(dim=1, keepdim=True)
    pairs = unit @ unit.T
    mean = (float(pairs.sum()) - 16) / (16 * 15)
    assert float(profile.correlation[0]) == pytest.approx(mean, abs=1e-6)
