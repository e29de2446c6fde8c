"""The MLP's kernels, its fixed points and its phases."""

from __future__ import annotations

import math

import numpy as np
import pytest

from critinit import theory
from critinit.errors import CritinitError
from critinit.theory import DivergenceError, TheoryError

ACTIVATIONS = ["tanh", "erf", "gelu", "selu", "silu", "sin"]


def test_kernels_of_pairs_are_those_of_alike_inputs() -> None:
    gram = np.array([[1.2, 0.36], [0.36, 1.2]])
    for name in ("gelu", "tanh", "relu"):
        kernels = theory.nngp(gram, 5, name, sigma_w=1.4, sigma_b=0.2)
        profile = theory.mlp(5, name, sigma_w=1.4, sigma_b=0.2, kernel=1.2, correlation=0.3)
        np.testing.assert_allclose(kernels[:, 0, 0], profile.kernel, rtol=1e-12)
        cosine = kernels[:, 0, 1] / kernels[:, 0, 0]
        np.testing.assert_allclose(cosine, profile.correlation, rtol=1e-12)
        assert np.array_equal(kernels, kernels.transpose(0, 2, 1))


def test_kernels_of_linear_networks_are_exact() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4, 6))
    gram = x @ x.T / 6
    kernels = theory.nngp(gram, 2, "linear", sigma_w=[1.0, 2.0, 0.5], sigma_b=[0.0, 1.0, 0.0])
    np.testing.assert_allclose(kernels[-1], 0.25 * (4 * gram + 1), rtol=1e-12)


def test_multipliers_scale_the_standard_deviations() -> None:
    a_w, a_b = [0.9, 1.1, -1.2], [1.0, 0.5, 2.0]
    twin = theory.mlp(2, "gelu", sigma_w=1.3, sigma_b=0.4, a_w=a_w, a_b=a_b)
    scaled = theory.mlp(2, "gelu", sigma_w=1.3 * np.abs(a_w), sigma_b=0.4 * np.array(a_b))
    np.testing.assert_allclose(twin.apjn, scaled.apjn, rtol=1e-14)
    np.testing.assert_allclose(twin.kernel, scaled.kernel, rtol=1e-14)


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("sigma_w", [0.8, 1.2, 1.5])
def test_the_recursion_ends_at_the_fixed_point(name: str, sigma_w: float) -> None:
    point = theory.fixed_point(name, sigma_w, 0.3)
    profile = theory.mlp(200, name, sigma_w=sigma_w, sigma_b=0.3, correlation=1.0)
    if math.isinf(point.kernel):
        assert profile.kernel[-1] > 1e3 * profile.kernel[100]
        return
    assert point.chi_k < 0.93  # 200 layers are enough
    assert profile.kernel[-1] == pytest.approx(point.kernel, rel=1e-6)
    assert profile.apjn[-1] == pytest.approx(point.chi_j, rel=1e-6)
    # and it approaches at the rate χ_K
    phi, k = theory.activation(name), 1.001 * point.kernel
    after = float(sigma_w**2 * phi.second_moment(k) + 0.09)
    assert (after - point.kernel) / (k - point.kernel) == pytest.approx(point.chi_k, rel=1e-2)


@pytest.mark.parametrize("name", [*ACTIVATIONS, "relu", "linear", "leaky_relu"])
def test_the_phases_meet_at_the_critical_line(name: str) -> None:
    for sigma_b in (0.0, 0.2):
        for point in theory.critical_points(name, sigma_b):
            start = 1.0 if not math.isfinite(point.kernel) else point.kernel
            drawn = theory.fixed_point(name, point.sigma_w, sigma_b, start).kernel
            if not math.isfinite(point.kernel) or drawn == pytest.approx(
                start, abs=1e-6
            ):  # K is stable there
                assert theory.phase(name, point.sigma_w, sigma_b, start) == "critical"
                assert theory.phase(name, 0.97 * point.sigma_w, sigma_b, start) == "ordered"
                assert theory.phase(name, 1.03 * point.sigma_w, sigma_b, start) == "chaotic"
            else:
                found = theory.fixed_points(name, point.sigma_w, sigma_b)
                assert any(p.phase == "critical" and not p.stable for p in found)


def test_known_critical_points() -> None:
    (tanh,) = theory.critical_points("tanh")
    assert tanh.sigma_w == pytest.approx(1, abs=1e-6)
    assert tanh.kernel == 0
    (relu,) = theory.critical_points("relu")
    assert relu.sigma_w == pytest.approx(2**0.5, rel=1e-12)
    assert math.isnan(relu.kernel)  # any
    (biased,) = theory.critical_points("relu", 0.3)
    assert biased.sigma_w == pytest.approx(2**0.5, rel=1e-12)
    assert math.isinf(biased.kernel)  # J = 1, but K grows by σ_b² a layer
    (gelu,) = theory.critical_points("gelu", 0.17**0.5)
    assert gelu.sigma_w**2 == pytest.approx(1.98, abs=0.01)
    assert gelu.kernel == pytest.approx(3.5, abs=0.2)
    assert theory.critical_points("softplus") == []
    assert np.isnan(theory.critical_line("softplus", 0.1)).all()


def test_activations_that_overflow_or_are_flat() -> None:
    """Far K are left out for those that are written carelessly; a constant is never critical."""
    careless = theory.activation(lambda u: u * np.exp(u) / (1 + np.exp(u)))
    (found,), (expected,) = (theory.critical_points(f, 0.3) for f in (careless, "silu"))
    assert found.sigma_w == pytest.approx(expected.sigma_w, rel=1e-9)
    assert theory.critical_points(lambda u: 0 * u + 1) == []


def test_a_critical_mlp_is_critical() -> None:
    for name in ("tanh", "gelu", "selu"):
        (point,) = theory.critical_points(name, 0.4)
        # the input layer is to bring K to the fixed point
        start = (point.kernel - 0.16) / point.sigma_w**2
        profile = theory.mlp(20, name, sigma_w=point.sigma_w, sigma_b=0.4, kernel=start)
        np.testing.assert_allclose(profile.apjn[1:], 1, atol=1e-6)


def test_kernels_approach_the_fixed_point_by_a_factor_e_in_each_kernel_depth() -> None:
    point = theory.fixed_point("tanh", 1.5, 0.1)
    profile = theory.mlp(14, "tanh", sigma_w=1.5, sigma_b=0.1, kernel=0.5)
    off = np.abs(profile.kernel - point.kernel)
    assert -1 / np.log(off[13] / off[12]) == pytest.approx(point.kernel_depth, rel=1e-2)


def test_fixed_points_stable_and_not() -> None:
    low, high = theory.fixed_points("gelu", 1.5, 0.1)
    assert low.stable
    assert not high.stable
    assert theory.fixed_point("gelu", 1.5, 0.1, kernel=0.99 * high.kernel).kernel == pytest.approx(
        low.kernel
    )
    assert math.isinf(theory.fixed_point("gelu", 1.5, 0.1, kernel=1.01 * high.kernel).kernel)
    assert theory.fixed_point("relu", 2**0.5, kernel=0.37).kernel == 0.37  # every K is
    assert theory.fixed_points("relu", 1.0)[0].kernel == 0
    (only,) = theory.fixed_points("relu", 1.0, 0.3)
    assert only.kernel == pytest.approx(0.18, rel=1e-10)  # σ_b²/(1 − σ_w²/2)
    tiny = theory.fixed_point("tanh", 0.5, 1e-6)
    assert tiny.kernel == pytest.approx(1e-12 / 0.75, rel=1e-6)


@pytest.mark.parametrize(("name", "sigma_w"), [("erf", 0.8), ("erf", 1.5), ("gelu", 1.3)])
def test_correlations_approach_at_their_depth(name: str, sigma_w: float) -> None:
    point = theory.correlation_point(name, sigma_w, 0.2)
    # the input layer is to bring K to its fixed point, so that only c moves
    start = (theory.fixed_point(name, sigma_w, 0.2).kernel - 0.04) / sigma_w**2
    profile = theory.mlp(60, name, sigma_w=sigma_w, sigma_b=0.2, kernel=start, correlation=0.3)
    gaps = np.abs(profile.correlation - point.correlation)
    layers = int(min(50, 6 * point.depth))
    measured = -1 / math.log(gaps[layers] / gaps[layers - 1])
    assert measured == pytest.approx(point.depth, rel=0.02)
    assert theory.correlation_depth(name, sigma_w, 0.2) == point.depth


def test_correlation_depth_by_phase() -> None:
    ordered = theory.correlation_point("tanh", 1.0, 0.3)
    assert ordered.correlation == 1
    assert ordered.slope == pytest.approx(theory.fixed_point("tanh", 1.0, 0.3).chi_j, rel=1e-9)
    sigma_w = float(theory.critical_line("tanh", 0.3)[0])
    assert theory.correlation_depth("tanh", sigma_w, 0.3) > 1e5
    chaotic = theory.correlation_point("tanh", 2.0, 0.3)
    assert 0 < chaotic.correlation < 1
    assert theory.correlation_point("erf", 2.0).correlation == 0  # odd, no bias: orthogonal
    assert theory.fixed_point("tanh", 2.0, 0.3).kernel_depth < math.inf


def test_relu_with_biases_at_large_depth() -> None:
    """After eq. relu_jkl: K^{l+1} = J K^l + σ_b², so the ratio of K tends to 1, or to J."""
    for sigma_w, expected in ((1.2, 1.0), (1.6, 1.28)):
        profile = theory.mlp(120, "relu", sigma_w=sigma_w, sigma_b=0.4, correlation=1.0)
        k = profile.kernel
        np.testing.assert_allclose(k[2:], profile.apjn[1:] * k[1:-1] + 0.16, rtol=1e-12)
        assert profile.kernel_ratio[-1] == pytest.approx(expected, rel=1e-9)


def test_profile_as_a_value() -> None:
    profile = theory.mlp(3, "relu", sigma_w=2.0)
    assert len(profile) == 4
    assert profile.total == pytest.approx(float(np.prod(profile.apjn)))
    assert str(profile).splitlines()[2].split() == ["0", "4", "1.386", "4", "0.000"]
    np.testing.assert_allclose(profile.kernel_ratio, profile.kernel[1:] / profile.kernel[:-1])


def test_bad_input() -> None:
    for wrong, message in (
        ({"sigma_w": -1.0}, "sigma_w=.* is negative"),
        ({"sigma_w": 1.0, "sigma_b": -0.1}, "sigma_b=.* is negative"),
        ({"sigma_w": math.nan}, "finite"),
        ({"sigma_w": "two"}, "a number is needed"),
        ({"sigma_w": [1.0, 2.0]}, r"shape \(2,\)"),
        ({"sigma_w": 1.0, "kernel": -1.0}, "variance is needed"),
        ({"sigma_w": 1.0, "correlation": 1.5}, "cosine"),
        ({"sigma_w": 1.0, "activation": "rleu"}, "Did you mean 'relu'"),
    ):
        with pytest.raises(TheoryError, match=message) as caught:
            theory.mlp(3, **wrong)
        assert isinstance(caught.value, CritinitError)
    for depth in (0, -1, 2.5, True):
        with pytest.raises(TheoryError, match="whole number"):
            theory.mlp(depth, sigma_w=1.0)
    with pytest.raises(TheoryError, match="square matrix"):
        theory.nngp([[1.0, 0.5]], 2, sigma_w=1.0)
    with pytest.raises(TheoryError, match="negative"):
        theory.phase("tanh", -1.0)


@pytest.mark.parametrize("name", ["relu", "gelu"])
def test_a_kernel_that_overflows(name: str) -> None:
    with pytest.raises(DivergenceError, match="overflows"):
        theory.mlp(2000, name, sigma_w=2.0)
    with pytest.raises(DivergenceError, match="overflows"):
        theory.sensitivity(2000, name, sigma_w=2.0)
    with pytest.raises(DivergenceError, match="overflows"):
        theory.nngp([[1.0]], 2000, name, sigma_w=2.0)
