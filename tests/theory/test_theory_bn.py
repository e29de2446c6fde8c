"""Pre-BN residual MLPs: the conjecture, and what batches of finite size change."""

from __future__ import annotations

import math

import numpy as np
import pytest

from critinit import theory
from critinit.theory import TheoryError
from critinit.theory._laws import Gaussian, Sphere, rule
from critinit.theory.bn_mlp import NormalizedActivation
from critinit.theory.layers import Signal

ACTIVATIONS = ["relu", "tanh", "gelu", "selu", "leaky_relu", "erf"]


def project(h: np.ndarray) -> np.ndarray:
    return h - h.mean(axis=1, keepdims=True)


@pytest.mark.parametrize("name", ["relu", "tanh", "gelu"])
@pytest.mark.parametrize("batch", [4, 5, 8, 16, 64])
def test_finite_batches_against_the_definition(name: str, batch: int) -> None:
    """Eq. bn_apjn, averaged over Gaussian batches drawn from K_xx and K_xx'."""
    rng, neurons, kernel, cross = np.random.default_rng(batch), 400_000 // batch, 1.7, 0.4
    shared = rng.normal(size=(neurons, 1)) * math.sqrt(cross)
    h = shared + rng.normal(size=(neurons, batch)) * math.sqrt(kernel - cross)
    centered = project(h)
    length = np.sqrt((centered**2).sum(axis=1, keepdims=True))
    normalized = math.sqrt(batch) * centered / length
    phi = theory.activation(name)
    values, slopes = phi.function(normalized), phi.function.derivative(normalized)
    # Σ_x' (P_xx' − x̂_x x̂_x')² is the diagonal of a projector
    left = 1 - 1 / batch - normalized**2 / batch
    samples = {
        "J": (slopes**2 * batch / length**2 * left).mean(axis=1),
        "K": (values**2).mean(axis=1),
        "cross": (values.sum(axis=1) ** 2 - (values**2).sum(axis=1)) / (batch * (batch - 1)),
    }
    behind, j = NormalizedActivation(phi, batch)(Signal(kernel, cross))
    for found, expected in ((j, "J"), (behind.kernel, "K"), (behind.cross, "cross")):
        drawn = samples[expected]
        error = drawn.std(ddof=1) / math.sqrt(neurons)
        if batch == 4 and expected == "J":
            # 1/‖Ph‖² has no variance with three degrees of freedom: compare what multiplies it
            drawn = (slopes**2 * left).mean(axis=1) / ((kernel - cross) * (1 - 3 / batch))
            error = drawn.std(ddof=1) / math.sqrt(neurons)
        assert abs(found - drawn.mean()) <= 4 * error, expected
        assert error < 0.02 * abs(drawn.mean()) + 1e-3


@pytest.mark.parametrize("batch", [4, 5, 6, 9, 33, 256, 4096])
def test_relu_on_the_sphere_in_closed_form(batch: int) -> None:
    """φ is homogeneous, so that the sphere's means are the Gaussian's, at correlation −1/n."""
    relu = theory.activation("relu")
    kernel, cross, mean, slope = NormalizedActivation(relu, batch).moments
    n = batch - 1
    assert kernel == pytest.approx(0.5, rel=1e-10)
    assert cross == pytest.approx(float(relu.product(1, 1, -1 / n)), rel=1e-10)
    radius = math.exp(math.lgamma((n + 1) / 2) - math.lgamma(n / 2)) * math.sqrt(2 / n)
    assert mean == pytest.approx(math.sqrt(1 / (2 * math.pi)) / radius, rel=1e-10)
    assert slope == pytest.approx((n - 1) / (n - 2) / 2, rel=1e-10)


@pytest.mark.parametrize("dimensions", [2, 3, 4, 15, 100, 5000])
def test_the_law_of_a_coordinate(dimensions: int) -> None:
    y, weight = rule(Sphere(dimensions), np.zeros(1))
    assert (weight * y**2).sum() == pytest.approx(1, rel=1e-12)
    fourth = 3 * dimensions / (dimensions + 2)
    assert (weight * y**4).sum() == pytest.approx(fourth, rel=1e-12)
    z, gaussian = rule(Gaussian(), np.zeros(1))
    assert (gaussian * z**4).sum() == pytest.approx(3, rel=1e-12)


def test_relu_without_skips() -> None:
    """J = π/(π − 1) for an infinite batch, whatever σ_w and σ_b."""
    for sigma_w in (0.3, 1.0, 5.0):
        for sigma_b in (0.0, 1.0):
            profile = theory.bn_mlp(4, "relu", sigma_w=sigma_w, sigma_b=sigma_b)
            np.testing.assert_allclose(profile.apjn[2:], math.pi / (math.pi - 1), rtol=1e-12)
    assert theory.bn_limit("relu") == pytest.approx(math.pi / (math.pi - 1), rel=1e-12)


def test_relu_kernels_are_the_printed_recursion() -> None:
    sigma_w, sigma_b, mu = 1.3, 0.4, 0.7
    profile = theory.bn_mlp(
        5, "relu", sigma_w=sigma_w, sigma_b=sigma_b, mu=mu, kernel=0.9, correlation=0.2
    )
    same, other = sigma_w**2 * 0.9 + sigma_b**2, sigma_w**2 * 0.18 + sigma_b**2
    for layer in range(1, 6):
        j = sigma_w**2 / 2 / (same - other) + mu**2
        assert profile.apjn[layer] == pytest.approx(j, rel=1e-12)
        same = sigma_w**2 / 2 + sigma_b**2 + mu**2 * same
        other = sigma_w**2 / (2 * math.pi) + sigma_b**2 + mu**2 * other
        assert profile.kernel[layer + 1] == pytest.approx(same, rel=1e-12)
        assert profile.correlation[layer + 1] == pytest.approx(other / same, rel=1e-12)


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("batch", [None, 16])
def test_with_skips_j_tends_to_one_as_one_over_the_depth(name: str, batch: int | None) -> None:
    profile = theory.bn_mlp(4000, name, sigma_w=1.2, sigma_b=0.1, mu=1, batch_size=batch)
    layers = np.arange(len(profile))
    scaled = layers[1:] * (profile.apjn[1:] - 1)
    assert scaled[-1] == pytest.approx(theory.bn_limit(name, 0, batch), rel=2e-3)
    assert (profile.apjn[1:] > 1).all()
    assert theory.bn_limit(name, 1, batch) == 1


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("mu", [0.0, 0.5, -0.9])
@pytest.mark.parametrize("batch", [None, 8, 200])
def test_the_limit_is_where_the_recursion_ends(name: str, mu: float, batch: int | None) -> None:
    for sigma_w, sigma_b in ((0.5, 0.0), (2.0, 0.7)):
        profile = theory.bn_mlp(
            200, name, sigma_w=sigma_w, sigma_b=sigma_b, mu=mu, batch_size=batch
        )
        assert profile.apjn[-1] == pytest.approx(theory.bn_limit(name, mu, batch), rel=1e-9)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_the_correction_vanishes_as_one_over_the_batch(name: str) -> None:
    """And with skips it is suppressed further, as J − 1 itself is."""
    sizes = np.array([128, 256, 512, 1024, 2048])
    scaled = sizes * [theory.batch_correction(int(size), name) for size in sizes]
    assert np.abs(np.diff(scaled)).max() < 0.1 * np.abs(scaled[-1]) + 0.01
    assert np.abs(np.diff(scaled))[-1] < np.abs(np.diff(scaled))[0]
    j = {
        size: theory.bn_mlp(40, name, sigma_w=1.0, mu=1, batch_size=size).apjn
        for size in (64, None)
    }
    off = np.abs(j[64] - j[None])[1:]
    assert off[-1] < 0.1 * off[0]


def test_the_figure_calls_128_examples_many() -> None:
    """Fig. bn_relu: from |B| = 128 on the correction is negligible."""
    assert 0 < theory.batch_correction(128) < 0.005
    assert theory.batch_correction(8) > 0.1


def test_bad_batches() -> None:
    for size in (3, 0, -1, 16.0):
        with pytest.raises(TheoryError, match="at least 4"):
            theory.bn_mlp(2, sigma_w=1.0, batch_size=size)
    with pytest.raises(TheoryError, match="all the same"):
        theory.bn_mlp(2, sigma_w=1.0, correlation=1.0)
    with pytest.raises(TheoryError, match="negative"):
        theory.bn_mlp(2, sigma_w=-1.0)
