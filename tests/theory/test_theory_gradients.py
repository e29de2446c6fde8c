"""Gradients by the paper's formulas against automatic differentiation of the recursion."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from theory_recursion import MOMENTS, recursion
from torch import Tensor

from critinit import theory
from critinit.losses import JKL, JLL, JSL

DEPTH, SIGMA_W, SIGMA_B, KERNEL = 6, 1.4, 0.3, 0.8
LOSSES = {"jll": JLL(), "jsl": JSL(), "jkl": JKL(lam=0.3)}


def multipliers() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    a = 0.7 + 0.6 * torch.rand(2, DEPTH + 1, dtype=torch.float64, generator=generator)
    return a[0].requires_grad_(), a[1].requires_grad_()


def network(a_w: Tensor, a_b: Tensor) -> dict[str, Any]:
    """The same as `recursion` is given, for `critinit.theory`."""
    return {
        "sigma_w": SIGMA_W,
        "sigma_b": SIGMA_B,
        "a_w": a_w.detach().numpy(),
        "a_b": a_b.detach().numpy(),
        "kernel": KERNEL,
    }


@pytest.mark.parametrize("name", MOMENTS)
def test_the_recursion(name: str) -> None:
    a_w, a_b = multipliers()
    j, k = recursion(name, SIGMA_W, SIGMA_B, a_w, a_b, KERNEL)
    found = theory.mlp(DEPTH, name, **network(a_w, a_b))
    np.testing.assert_allclose(found.apjn, j.detach().numpy(), rtol=1e-11)
    np.testing.assert_allclose(found.kernel, k.detach().numpy(), rtol=1e-11)


@pytest.mark.parametrize("name", MOMENTS)
def test_sensitivity(name: str) -> None:
    a_w, a_b = multipliers()
    j, k = recursion(name, SIGMA_W, SIGMA_B, a_w, a_b, KERNEL)
    found = theory.sensitivity(DEPTH, name, **network(a_w, a_b))
    for row in range(DEPTH + 1):
        for value, by_w, by_b in (
            (j[row].log(), found.log_apjn_by_weight, found.log_apjn_by_bias),
            (k[row + 1].log(), found.log_kernel_by_weight, found.log_kernel_by_bias),
        ):
            exact = torch.autograd.grad(
                value, [a_w, a_b], retain_graph=True, materialize_grads=True
            )
            np.testing.assert_allclose(by_w[row], exact[0].numpy(), rtol=1e-9, atol=1e-11)
            np.testing.assert_allclose(by_b[row], exact[1].numpy(), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", MOMENTS)
def test_loss_gradients(name: str, loss: theory.gradients.Loss) -> None:
    """With the losses that tuning uses, over the recursion: isolated and depth terms add up."""
    a_w, a_b = multipliers()
    value = LOSSES[loss](*recursion(name, SIGMA_W, SIGMA_B, a_w, a_b, KERNEL))
    value.backward()
    found = theory.loss_gradient(DEPTH, name, loss=loss, lam=0.3, **network(a_w, a_b))
    assert found.loss == pytest.approx(float(value.detach()), rel=1e-10)
    np.testing.assert_allclose(found.weight, a_w.grad.numpy(), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(
        found.bias,
        (a_b.grad if a_b.grad is not None else 0 * a_b).detach().numpy(),
        rtol=1e-9,
        atol=1e-11,
    )


def test_the_isolated_term_is_that_of_the_paper() -> None:
    """Eq. iso: (2/a_W) log J; a bias has none."""
    a_w = np.linspace(0.8, 1.3, DEPTH + 1)
    settings = {"sigma_w": 1.4, "sigma_b": 0.3, "a_w": a_w, "kernel": KERNEL}
    found = theory.loss_gradient(DEPTH, "tanh", **settings)
    log_j = theory.mlp(DEPTH, "tanh", **settings).log_apjn
    np.testing.assert_allclose(found.weight_isolated[1:], (2 / a_w * log_j)[1:], rtol=1e-12)
    assert found.weight_isolated[0] == 0  # the input block is not in the loss
    assert (found.bias_isolated == 0).all()


def test_the_isolated_term_of_jkl() -> None:
    """(2λ/a_W) log r times the share of K^{l+1} that the weight has, which is 1 at σ_b = 0."""
    found = {
        b: theory.loss_gradient(4, "gelu", sigma_w=1.4, sigma_b=b, loss="jkl", lam=0.5)
        for b in (0.0, 0.5)
    }
    for b, gradient in found.items():
        profile = theory.mlp(4, "gelu", sigma_w=1.4, sigma_b=b)
        share = 1 - b**2 / profile.kernel[1:]
        expected = 2 * profile.log_apjn + 2 * 0.5 * share * np.log(profile.kernel_ratio)
        np.testing.assert_allclose(gradient.weight_isolated, expected, rtol=1e-10)


@pytest.mark.parametrize("name", ["gelu", "tanh", "erf"])
def test_the_printed_depth_terms_are_twice_too_large(name: str) -> None:
    """Eq. tauto_aw and tauto_ab carry a factor 4 where ∂J/∂K = χ_Δ leaves 2."""
    sigma_w, sigma_b, low, high = 1.5, 0.2, 1, 4
    found = theory.sensitivity(5, name, sigma_w=sigma_w, sigma_b=sigma_b)
    phi = theory.activation(name)
    through = phi.chi_delta(found.kernel[high], sigma_w) / found.apjn[high]
    for layer in range(low + 1, high):
        through *= phi.chi_k(found.kernel[layer], sigma_w)
    weight = 4 * through * (found.kernel[low + 1] - sigma_b**2)  # printed: without − σ_b²
    bias = 4 * through * sigma_b**2
    assert weight / found.log_apjn_by_weight[high, low] == pytest.approx(2, rel=1e-9)
    assert bias / found.log_apjn_by_bias[high, low] == pytest.approx(2, rel=1e-9)


def test_depth_terms_do_not_explode() -> None:
    """The paper's three cases: none for ReLU, χ_K ≤ 1 for tanh, tiny for GELU where χ_K > 1."""
    relu = theory.loss_gradient(60, "relu", sigma_w=2.0, sigma_b=0.3)
    assert (relu.weight_depth == 0).all()
    assert (relu.bias_depth == 0).all()
    tanh = theory.sensitivity(60, "tanh", sigma_w=3.0, sigma_b=0.1)
    assert (tanh.apjn[1:] > 1).all()
    phi = theory.activation("tanh")
    assert (phi.chi_k(tanh.kernel[1:], 3.0) <= 1).all()
    assert np.abs(np.tril(tanh.log_apjn_by_weight, -1)).max() < 2
    gelu = theory.loss_gradient(60, "gelu", sigma_w=1.7, sigma_b=0.1)
    assert np.abs(gelu.weight_depth).max() < np.abs(gelu.weight_isolated).max()


@pytest.mark.parametrize(
    ("name", "sigma_w", "sigma_b"),
    [("relu", 2.0, 0.3), ("gelu", 1.7, 0.1), ("gelu", 1.2, 0.5), ("tanh", 3.0, 0.1)],
)
def test_kernel_terms_of_later_blocks_stay_finite(
    name: str, sigma_w: float, sigma_b: float
) -> None:
    """∂log r^{l'+1,l'}/∂a_W^{l+1} is nowhere above the isolated 2/a_W, and no larger at depth."""

    def largest(depth: int) -> float:
        by_weight = theory.sensitivity(
            depth, name, sigma_w=sigma_w, sigma_b=sigma_b
        ).log_kernel_by_weight
        return float(np.abs(np.tril(np.diff(by_weight, axis=0))).max())

    assert largest(80) < 2
    assert largest(80) == pytest.approx(largest(20), rel=1e-3)


def test_kernel_terms_do_not_depend_on_the_depth_of_relu_without_biases() -> None:
    """K behind a multiplier scales with its square: every later ratio stays."""
    found = theory.sensitivity(30, "relu", sigma_w=1.7, a_w=np.linspace(0.8, 1.2, 31))
    expected = np.tril(np.broadcast_to(2 / np.linspace(0.8, 1.2, 31), (31, 31)))
    np.testing.assert_allclose(found.log_kernel_by_weight, expected, rtol=1e-12)


def test_gradients_that_do_not_exist() -> None:
    with pytest.raises(theory.TheoryError, match="a_w holds a zero"):
        theory.sensitivity(2, sigma_w=1.0, a_w=[1.0, 0.0, 1.0])
    with pytest.raises(theory.TheoryError, match="unknown"):
        theory.loss_gradient(2, sigma_w=1.0, loss="mse")
    with pytest.raises(theory.TheoryError, match="negative"):
        theory.loss_gradient(2, sigma_w=1.0, loss="jkl", lam=-1.0)
