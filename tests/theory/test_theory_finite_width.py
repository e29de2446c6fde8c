"""The networks that `critinit.measure` sees behave as theory says.

What is allowed: 4 standard errors over the draws, and 1/N for each layer (2/N for ResMLP, where N
is the number of patches). Each slow test has a smaller twin in the default run.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from theory_networks import (
    FUNCTIONS,
    ResMLPBlock,
    assert_predicted,
    draw,
    inputs,
    module,
    pre_norm,
)
from torch import nn

from critinit import theory
from critinit.models import mlp

PHASES = {"ordered": 0.75, "critical": 1.0, "chaotic": 1.3}
BIASES = {"relu": 0.0, "tanh": 0.2, "erf": 0.2, "gelu": 0.4, "selu": 0.3}


def check_mlp(name: str, phase: str, width: int, depth: int, draws: int) -> None:
    torch.manual_seed(3)
    sigma_b = BIASES[name]
    critical = float(theory.critical_line(name, sigma_b)[0])
    sigma_w = PHASES[phase] * critical
    predicted = theory.mlp(depth, name, sigma_w=sigma_w, sigma_b=sigma_b, correlation=0.5)
    model = mlp(width, depth, inputs=width, outputs=width, activation=module(name))
    x = inputs(8, width, correlation=0.5)
    assert_predicted(
        model, lambda: draw(model, sigma_w, sigma_b), x, predicted, draws=draws, finite=1 / width
    )


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("name", BIASES)
def test_mlp(name: str, phase: str) -> None:
    check_mlp(name, phase, width=512, depth=3, draws=64)


@pytest.mark.parametrize("name", ["relu", "tanh", "gelu"])
@pytest.mark.parametrize("width", [4, 16])
def test_factorization_is_off_by_chi_delta_over_the_width(name: str, width: int) -> None:
    """J^{l,l+2} − J^{l,l+1} J^{l+1,l+2}: by parts, 2 σ_w⁴ χ_Δ/N times the mean of (φ φ')²."""
    torch.manual_seed(0)
    sigma_w, phi, draws = 1.5, module(name)(), 200_000 // width
    h = torch.randn(width, dtype=torch.double, requires_grad=True)
    signal = phi(h)
    (slope,) = torch.autograd.grad(signal.sum(), h)
    signal, slope = signal.detach(), slope.detach()
    w = sigma_w / width**0.5 * torch.randn(draws, width, width, dtype=torch.double)
    behind = (w @ signal).requires_grad_()
    (slope_behind,) = torch.autograd.grad(phi(behind).sum(), behind)
    # summed over the weights of the second layer, which are independent of all else
    found = sigma_w**2 * (slope_behind[:, :, None] * w * slope).square().sum(2).mean(1)
    kernel = sigma_w**2 * float(signal.square().mean())
    activation = theory.activation(name)
    product = sigma_w**2 * float(slope.square().mean()) * activation.chi_j(kernel, sigma_w)
    remainder = (
        2 * sigma_w**4 / width * activation.chi_delta(kernel, sigma_w)
        * float((signal * slope).square().mean())
    )  # fmt: skip
    error = float(found.std()) / draws**0.5
    assert float(found.mean()) == pytest.approx(float(product + remainder), abs=4 * error)
    if name == "relu":
        assert remainder == 0
    else:
        assert abs(remainder) > 4 * error, "it is seen"


@pytest.mark.slow
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("name", BIASES)
@pytest.mark.parametrize("width", [512, 1024, 2048])
def test_mlp_wide_and_deep(name: str, phase: str, width: int) -> None:
    check_mlp(name, phase, width, depth=10, draws=24 * (2048 // width))


@pytest.mark.parametrize("name", ["relu", "tanh"])
def test_mlp_deep_and_critical(name: str) -> None:
    check_mlp(name, "critical", width=512, depth=8, draws=64)


def check_bn(name: str, mu: float, batch: int, width: int, depth: int, draws: int) -> None:
    torch.manual_seed(4)
    predicted = theory.bn_mlp(
        depth, name, sigma_w=1.5, sigma_b=0.3, mu=mu, batch_size=batch, correlation=0.3
    )
    model = pre_norm(lambda n: nn.BatchNorm1d(n, eps=1e-12), width, depth, FUNCTIONS[name], mu)
    x = inputs(batch, width, correlation=0.3)
    assert_predicted(
        model, lambda: draw(model, 1.5, 0.3), x, predicted, draws=draws, finite=1 / width
    )


@pytest.mark.parametrize("mu", [0.0, 1.0])
@pytest.mark.parametrize(("name", "batch"), [("relu", 16), ("relu", 128), ("tanh", 32)])
def test_pre_bn(name: str, mu: float, batch: int) -> None:
    check_bn(name, mu, batch, width=512, depth=3, draws=48)


@pytest.mark.slow
@pytest.mark.parametrize("mu", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("batch", [16, 32, 64, 128, 256, 512])
@pytest.mark.parametrize("name", ["relu", "tanh", "gelu"])
def test_pre_bn_wide_and_deep(name: str, mu: float, batch: int) -> None:
    check_bn(name, mu, batch, width=1024, depth=8, draws=12)


def check_resmlp(
    name: str, scale: float, sigma_b: float, patches: int, channels: int, depth: int, draws: int
) -> None:
    torch.manual_seed(5)
    predicted = theory.resmlp(
        depth, name, sigma_w=1.2, sigma_b=sigma_b, layer_scale=scale, correlation=0.4
    )
    model = nn.Sequential(
        *(ResMLPBlock(patches, channels, FUNCTIONS[name], scale, 1.0) for _ in range(depth))
    )
    x = inputs(4, patches * channels, correlation=0.4).unflatten(1, (patches, channels))
    # every patch of an example has mean square 1, too, as after an embedding
    x = x / x.square().mean(-1, keepdim=True).sqrt()
    assert_predicted(
        model, lambda: draw(model, 1.2, sigma_b), x, predicted, draws=draws, finite=2 / patches
    )


@pytest.mark.parametrize("scale", [0.1, 0.3, 1.0])
@pytest.mark.parametrize(("name", "sigma_b"), [("gelu", 0.0), ("relu", 0.3)])
def test_resmlp(name: str, sigma_b: float, scale: float) -> None:
    check_resmlp(name, scale, sigma_b, patches=128, channels=64, depth=2, draws=64)


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0.1, 0.2, 0.4, 0.7, 1.0])
@pytest.mark.parametrize(("name", "sigma_b"), [("gelu", 0.0), ("relu", 0.3), ("tanh", 0.0)])
def test_resmlp_large(name: str, sigma_b: float, scale: float) -> None:
    check_resmlp(name, scale, sigma_b, patches=256, channels=384, depth=4, draws=16)


def check_ln(name: str, mu: float, width: int, depth: int, draws: int) -> None:
    torch.manual_seed(6)
    predicted = theory.ln_mlp(depth, name, sigma_w=0.8, sigma_b=0.3, mu=mu, correlation=0.3)
    model = pre_norm(lambda n: nn.LayerNorm(n, eps=1e-12), width, depth, FUNCTIONS[name], mu)
    x = inputs(8, width, correlation=0.3)
    assert_predicted(
        model, lambda: draw(model, 0.8, 0.3), x, predicted, draws=draws, finite=1 / width
    )


@pytest.mark.parametrize("mu", [0.0, 1.0])
@pytest.mark.parametrize("name", ["relu", "gelu"])
def test_layernorm(name: str, mu: float) -> None:
    check_ln(name, mu, width=512, depth=4, draws=64)


@pytest.mark.slow
@pytest.mark.parametrize("mu", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("name", ["relu", "gelu", "silu"])
@pytest.mark.parametrize("width", [512, 2048])
def test_layernorm_wide_and_deep(name: str, mu: float, width: int) -> None:
    check_ln(name, mu, width, depth=10, draws=16)


def test_layernorm_behind_the_activation() -> None:
    """A placement that has no function of its own: composed of layers."""
    torch.manual_seed(7)
    width, relu = 512, theory.activation("relu")
    block = theory.layers.Chain(
        (theory.layers.Pointwise(relu), theory.layers.LayerNorm(), theory.layers.Linear(1.3, 0.2))
    )
    predicted = theory.layers.propagate([theory.layers.Linear(1.3, 0.2), block, block], 1.0, 0.3)
    parts: list[nn.Module] = [nn.Linear(width, width)]
    for _ in range(2):
        parts += [nn.ReLU(), nn.LayerNorm(width, eps=1e-12), nn.Linear(width, width)]
    model = nn.Sequential(*parts)
    x = inputs(8, width, correlation=0.3)
    assert_predicted(model, lambda: draw(model, 1.3, 0.2), x, predicted, draws=64, finite=1 / width)


def test_the_comparison_can_fail() -> None:
    """A prediction that is off by four percent in σ_w is noticed."""
    torch.manual_seed(8)
    model = mlp(512, 3, inputs=512, outputs=512, activation=module("tanh"))
    wrong = theory.mlp(3, "tanh", sigma_w=1.56, sigma_b=0.1)
    with pytest.raises(AssertionError, match="J off by"):
        assert_predicted(
            model, lambda: draw(model, 1.5, 0.1), inputs(8, 512), wrong, draws=64, finite=1 / 512
        )


def test_the_paper_reads_pre_bn_relu_as_chaotic_everywhere() -> None:
    """Fig. bn_relu: with μ=0, J is near π/(π−1) for every σ_w and σ_b; with μ=1 it tends to 1."""
    for sigma_w in (0.5, 1.0, 4.0):
        for sigma_b in (0.0, 2.0):
            plain = theory.bn_mlp(3, sigma_w=sigma_w, sigma_b=sigma_b, batch_size=256)
            assert plain.apjn[-1] == pytest.approx(np.pi / (np.pi - 1), rel=2e-3)
            residual = theory.bn_mlp(200, sigma_w=sigma_w, sigma_b=sigma_b, mu=1, batch_size=256)
            assert 1 < residual.apjn[-1] < 1.01
