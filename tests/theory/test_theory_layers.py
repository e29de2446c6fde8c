"""Networks composed of layer maps, against the formulas that composing gives by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from critinit import theory
from critinit.theory import TheoryError, activation
from critinit.theory.layers import (
    Chain,
    Layer,
    LayerNorm,
    Linear,
    Pointwise,
    Residual,
    Signal,
    propagate,
)

SETTINGS = [
    {"sigma_w": w, "sigma_b": b, "layer_scale": e, "mu": mu}
    for w, b, e, mu in (
        (1.0, 0.0, 0.1, 1.0),
        (1.3, 0.5, 0.7, 1.0),
        (0.8, 1.0, 1.0, 0.6),
        (2.0, 0.2, 1e-5, 1.0),
    )
]


def gelu_second(z: float) -> float:
    """G, as printed."""
    algebraic = z**2 / (math.pi * (1 + z) * math.sqrt(1 + 2 * z))
    return z / 4 + z / (2 * math.pi) * math.asin(z / (1 + z)) + algebraic


def gelu_slope(z: float) -> float:
    """H_e, as printed."""
    algebraic = z * (3 + 5 * z) / ((1 + z) * (1 + 2 * z) ** 1.5)
    return 0.25 + (math.asin(z / (1 + z)) + algebraic) / (2 * math.pi)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("k", [0.3, 1.0, 4.0])
def test_resmlp_gelu_is_the_printed_recursion(setting: dict[str, float], k: float) -> None:
    """Eq. resmlp_nngpk_rec and eq. resmlp_apjn, with H's bracket where it belongs."""
    w, b = setting["sigma_w"] ** 2, setting["sigma_b"] ** 2
    e, mu = setting["layer_scale"] ** 2, setting["mu"] ** 2
    inner = w * (mu * k + e * (w * k + b)) + b
    kernel = (mu**2 + mu * e * w) * k + (1 + mu) * e * b + e * w * gelu_second(inner)
    apjn = (mu + e * w) * (mu + e * w**2 * gelu_slope(inner))
    found = theory.resmlp(1, "gelu", **setting, kernel=k)
    assert found.kernel[1] == pytest.approx(kernel, rel=1e-12)
    assert found.apjn[0] == pytest.approx(apjn, rel=1e-12)


def test_resmlp_layer_by_layer() -> None:
    """The lines of eq. resmlp_nngpk_rec between the first and the last, each from K^l."""
    sigma_w, sigma_b, scale, mu, k = 1.3, 0.5, 0.7, 0.6, 0.8
    w, b, e = sigma_w**2, sigma_b**2, scale**2
    gelu, linear = Pointwise(activation("gelu")), Linear(sigma_w, sigma_b)
    residual1 = Residual((linear,), scale, mu)

    def behind(*layers: Layer) -> float:
        signal = Signal(k, 0.3 * k)
        for layer in layers:
            signal, _ = layer(signal)
        return signal.kernel

    k_c = (mu**2 + e * w) * k + e * b
    k_e = w * (mu**2 * k + e * (w * k + b)) + b
    assert behind(linear) == pytest.approx(w * k + b, rel=1e-12)
    assert behind(residual1) == pytest.approx(k_c, rel=1e-12)
    assert behind(residual1, linear) == pytest.approx(k_e, rel=1e-12)
    assert behind(residual1, linear, gelu) == pytest.approx(gelu_second(k_e), rel=1e-12)
    k_g = w * gelu_second(k_e) + b
    assert behind(residual1, linear, gelu, linear) == pytest.approx(k_g, rel=1e-12)
    residual2 = Residual((linear, gelu, linear), scale, mu)
    assert behind(residual1, residual2) == pytest.approx(e * k_g + mu**2 * k_c, rel=1e-12)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("k", [0.3, 1.0, 4.0])
def test_resmlp_relu_is_the_corrected_recursion(setting: dict[str, float], k: float) -> None:
    w, b = setting["sigma_w"] ** 2, setting["sigma_b"] ** 2
    e, mu = setting["layer_scale"] ** 2, setting["mu"] ** 2
    factor = mu**2 + mu * e * w + mu * e * w**2 / 2 + e**2 * w**3 / 2
    constant = (1 + mu) * e * b + e**2 * w**2 * b / 2 + e * w * b / 2
    found = theory.resmlp(1, "relu", **setting, kernel=k)
    assert found.kernel[1] == pytest.approx(factor * k + constant, rel=1e-12)
    assert found.apjn[0] == pytest.approx((mu + e * w) * (mu + e * w**2 / 2), rel=1e-12)


def test_the_slip_in_the_printed_relu_recursion() -> None:
    """Its constant has ½E²σ_w²σ_b² too many and lacks ½E⁴σ_w⁴σ_b²: 1.19291 instead of 1.17475."""
    w, b, e, mu, k = 1.4**2, 0.5**2, 0.3**2, 1.0, 0.8
    composed = theory.resmlp(1, "relu", sigma_w=1.4, sigma_b=0.5, layer_scale=0.3, kernel=k).kernel[
        1
    ]
    factor = mu**2 + mu * e * w + mu * e * w**2 / 2 + e**2 * w**3 / 2
    printed = factor * k + (1 + mu + w / 2) * e * b + e * w * b / 2
    assert round(float(composed), 5) == 1.17475
    assert round(printed, 5) == 1.19291
    assert printed - composed == pytest.approx(e * w * b / 2 * (1 - e * w), rel=1e-9)


@pytest.mark.parametrize("name", ["relu", "gelu", "tanh"])
@pytest.mark.parametrize("whole", [False, True])
def test_the_largest_layer_scale(name: str, whole: bool) -> None:
    for depth, tolerance in ((4, 0.1), (12, 0.01)):
        scale = theory.largest_layer_scale(depth, tolerance, name, sigma_b=0.1, whole=whole)

        def excess(scale: float, depth: int = depth) -> float:
            logs = theory.resmlp(
                depth, name, sigma_b=0.1, layer_scale=scale, correlation=1.0
            ).log_apjn
            return float(abs(logs.sum()) if whole else np.abs(logs).max())

        assert excess(scale) == pytest.approx(tolerance, rel=1e-9)
        assert excess(1.01 * scale) > tolerance


def test_the_original_layer_scales_keep_j_near_one() -> None:
    """0.1 for 12 blocks and 1e-5 for 24, as published for ResMLP."""
    assert theory.largest_layer_scale(12, 0.05) > 0.1
    assert theory.resmlp(12, layer_scale=0.1).total < 1.2
    assert theory.resmlp(24, layer_scale=1e-5).total - 1 < 1e-7
    assert theory.resmlp(12).total > 1e3  # without LayerScale


def test_layer_scales_that_do_not_exist() -> None:
    with pytest.raises(TheoryError, match="skips alone"):
        theory.largest_layer_scale(4, 0.1, mu=1.2)
    with pytest.raises(TheoryError, match="stays below"):
        theory.largest_layer_scale(4, 1e-9, "tanh", sigma_b=1.0, mu=0.5)
    with pytest.raises(TheoryError, match="positive bound"):
        theory.largest_layer_scale(4, 0.0)
    with pytest.raises(TheoryError, match="too large"):
        theory.largest_layer_scale(4, 0.1, sigma_w=0.0)


@pytest.mark.parametrize("name", ["relu", "gelu", "tanh"])
@pytest.mark.parametrize("mu", [0.0, 0.5, 1.0])
def test_layernorm_by_hand(name: str, mu: float) -> None:
    w, b, phi = 1.2**2, 0.3**2, activation(name)
    profile = theory.ln_mlp(6, name, sigma_w=1.2, sigma_b=0.3, mu=mu, kernel=0.8, correlation=0.4)
    k = w * 0.8 + b
    for layer in range(1, 7):
        j = w * float(phi.slope_moment(1.0)) / k + mu**2
        assert profile.apjn[layer] == pytest.approx(j, rel=1e-12)
        k = w * float(phi.second_moment(1.0)) + b + mu**2 * k
        assert profile.kernel[layer + 1] == pytest.approx(k, rel=1e-12)


def test_layernorm_makes_plain_relu_critical_without_biases() -> None:
    """J = ½σ_w²/K and K = ½σ_w²: everywhere critical; with skips 1 + O(1/l)."""
    for sigma_w in (0.1, 1.0, 10.0):
        plain = theory.ln_mlp(5, sigma_w=sigma_w)
        np.testing.assert_allclose(plain.apjn[2:], 1, rtol=1e-12)
    residual = theory.ln_mlp(1000, sigma_w=1.3, sigma_b=0.5, mu=1)
    scaled = np.arange(1, 1001) * (residual.apjn[1:] - 1)
    assert scaled[-1] == pytest.approx(0.5 * 1.69 / (0.5 * 1.69 + 0.25), rel=1e-2)


def test_norms_of_signals_with_a_mean() -> None:
    """Behind ReLU LayerNorm subtracts the mean, RMSNorm does not."""
    signal, _ = Pointwise(activation("relu"))(Signal(2.0, 0.5))
    assert signal.mean == pytest.approx(math.sqrt(1 / math.pi))
    centered, j = LayerNorm()(signal)
    assert j == pytest.approx(1 / (1 - 1 / math.pi))
    assert centered.mean == 0
    rms, j = LayerNorm(centered=False)(signal)
    assert j == pytest.approx(1.0)
    assert rms.mean == pytest.approx(signal.mean)


def test_chains_multiply_and_branches_add() -> None:
    a, b = Linear(1.5, 0.2), Linear(0.5, 1.0)
    signal = Signal(0.7, 0.1)
    behind, j = Chain((a, b))(signal)
    assert j == pytest.approx(1.5**2 * 0.5**2)
    assert behind.kernel == pytest.approx(0.25 * (2.25 * 0.7 + 0.04) + 1)
    added, j = Residual((a, b), scale=0.3, skip=-0.9)(signal)
    assert j == pytest.approx(0.09 * 1.5**2 * 0.5**2 + 0.81)
    assert added.kernel == pytest.approx(0.09 * behind.kernel + 0.81 * 0.7)
    assert added.cross == pytest.approx(0.09 * behind.cross + 0.81 * 0.1)


def test_what_cannot_be_composed() -> None:
    with pytest.raises(TheoryError, match="must end in a Linear"):
        Residual((Pointwise(activation("relu")),))
    with pytest.raises(TheoryError, match="must end in a Linear"):
        Residual(())
    with pytest.raises(TheoryError, match="variance 0"):
        propagate([LayerNorm()], kernel=0.0)
    with pytest.raises(TheoryError, match="negative"):
        Linear(-1.0)
