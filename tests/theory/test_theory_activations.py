"""Expectations by quadrature against closed forms, and both against slower definitions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from critinit import theory
from critinit.errors import CritinitError
from critinit.theory import ActivationError, DivergenceError, TheoryError, activation

KERNELS = np.geomspace(1e-4, 1e4, 25)
CLOSED = ["linear", "relu", "leaky_relu", "erf", "gelu"]
SMOOTH = ["tanh", "sigmoid", "silu", "softplus", "sin", "mish", "gelu_tanh", "erf", "gelu"]
KINKED = ["elu", "selu", "celu", "hardtanh", "hardswish", "relu6", "softsign", "relu", "leaky_relu"]


def through_torch(phi: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Any], Any]:
    """The same function, but no tensor passes: only arrays do."""
    return lambda u: phi(torch.from_numpy(np.array(u.tolist()))).numpy()


ARRAYS: dict[str, Callable[[Any], Any]] = {
    "linear": lambda u: np.negative(np.negative(u)),
    "relu": lambda u: np.maximum(u, 0),
    "leaky_relu": lambda u: np.where(np.greater(u, 0), u, np.multiply(0.01, u)),
    "erf": through_torch(torch.erf),
    "gelu": through_torch(F.gelu),
}
SINGLE: dict[str, Callable[[float], float]] = {
    "linear": lambda u: float(str(u)),
    "relu": lambda u: u if math.copysign(1, u) > 0 else 0.0,
    "leaky_relu": lambda u: max(math.fsum([u]), 0.01 * u),
    "erf": math.erf,
    "gelu": lambda u: u * math.erfc(-u / math.sqrt(2)) / 2,
}


def ways(name: str) -> dict[str, theory.Activation]:
    """One activation, its derivatives unknown to the library in three different ways."""
    return {
        "torch": activation(name, quadrature=True),
        "arrays": activation(ARRAYS[name]),
        "single numbers": activation(SINGLE[name]),
    }


@pytest.mark.parametrize("way", ["torch", "arrays", "single numbers"])
@pytest.mark.parametrize("name", CLOSED)
def test_quadrature_agrees_with_closed_forms(name: str, way: str) -> None:
    closed, integrated = activation(name), ways(name)[way]
    assert type(closed) is not type(integrated)
    for moment in ("second_moment", "slope_moment", "chi_k"):
        expected = getattr(closed, moment)(KERNELS)
        np.testing.assert_allclose(getattr(integrated, moment)(KERNELS), expected, rtol=1e-10)
    spread = np.sqrt(closed.second_moment(KERNELS))
    assert (np.abs(integrated.mean(KERNELS) - closed.mean(KERNELS)) <= 1e-10 * spread).all()
    # χ_Δ passes through zero: its natural scale is that of E[φ'²]/K
    scale = closed.slope_moment(KERNELS) / KERNELS
    off = np.abs(integrated.chi_delta(KERNELS) - closed.chi_delta(KERNELS))
    assert (off <= 1e-10 * scale).all()


@pytest.mark.parametrize("name", CLOSED)
@pytest.mark.parametrize("kernel", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize("way", ["torch", "arrays"])
def test_pairs_agree_with_closed_forms(name: str, kernel: float, way: str) -> None:
    closed, integrated = activation(name), ways(name)[way]
    other = 3 * kernel
    for correlation in (-0.99, -0.3, 0.0, 0.6, 0.999, 1 - 1e-9, 1.0):
        both = correlation * math.sqrt(kernel * other)
        for product, moment in (("product", "second_moment"), ("slope_product", "slope_moment")):
            if way == "arrays" and product == "slope_product" and correlation not in (-0.3, 0.999):
                continue  # slow
            expected = getattr(closed, product)(kernel, other, both)
            scale = math.sqrt(getattr(closed, moment)(kernel) * getattr(closed, moment)(other))
            found = getattr(integrated, product)(kernel, other, both)
            assert abs(found - expected) <= 1e-10 * scale


@pytest.mark.parametrize("name", [*SMOOTH, *KINKED])
@pytest.mark.parametrize("kernel", [0.01, 1.3, 40.0])
def test_quadrature_agrees_with_the_trapezoidal_rule(name: str, kernel: float) -> None:
    """The slow and obvious reference: half a million equal steps."""
    phi = activation(name)
    z, step = np.linspace(-12, 12, 500_001, retstep=True)
    weight = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) * step
    u = math.sqrt(kernel) * z
    values, slopes = phi.function(u), phi.function.derivative(u)
    tolerance = 1e-3 if name in KINKED else 1e-12  # it steps over a kink
    for found, expected in (
        (phi.mean(kernel), values),
        (phi.second_moment(kernel), values**2),
        (phi.slope_moment(kernel), slopes**2),
        (phi.chi_k(kernel), values * slopes * u / kernel),
        (phi.chi_delta(kernel), slopes**2 * (z**2 - 1) / (2 * kernel)),
    ):
        scale = float((weight * np.abs(expected)).sum())
        assert abs(float(found) - float((weight * expected).sum())) <= tolerance * scale + 1e-15


@pytest.mark.parametrize("name", [*SMOOTH, *KINKED])
@pytest.mark.parametrize("kernel", [0.03, 1.0, 30.0])
def test_chi_are_derivatives(name: str, kernel: float) -> None:
    """χ_K = ∂K^{l+1}/∂K^l and χ_Δ = ∂J/∂K, also where φ'' is a delta function."""
    phi, step, sigma_w = activation(name), 1e-4 * kernel, 1.3

    def difference(f: Callable[[float], Any]) -> float:
        """Fourth order."""
        near = f(kernel + step) - f(kernel - step)
        far = f(kernel + 2 * step) - f(kernel - 2 * step)
        return float(8 * near - far) / (12 * step)

    assert float(phi.chi_k(kernel, sigma_w)) == pytest.approx(
        difference(lambda k: sigma_w**2 * phi.second_moment(k)), rel=1e-8, abs=1e-10
    )
    assert float(phi.chi_delta(kernel, sigma_w)) == pytest.approx(
        difference(lambda k: phi.chi_j(k, sigma_w)), rel=1e-7, abs=1e-9
    )


def test_smooth_forms_agree_with_the_definition_by_second_and_third_derivatives() -> None:
    """χ_K = E[φ'φ' + φφ''] and χ_Δ = E[φ''φ'' + φ'φ'''] for tanh, as printed."""
    z, step = np.linspace(-12, 12, 20_001, retstep=True)
    weight = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) * step
    for kernel in (0.1, 1.0, 5.0):
        t = np.tanh(math.sqrt(kernel) * z)
        d1 = 1 - t**2
        d2 = -2 * t * d1
        d3 = -2 * d1**2 + 4 * t**2 * d1
        phi = activation("tanh")
        assert float(phi.chi_k(kernel)) == pytest.approx(float((weight * (d1**2 + t * d2)).sum()))
        expected = float((weight * (d2**2 + d1 * d3)).sum())
        assert float(phi.chi_delta(kernel)) == pytest.approx(expected)


@pytest.mark.parametrize("phi", ["relu", "leaky_relu", "linear", torch.relu, ARRAYS["relu"]])
def test_chi_delta_of_relu_is_zero(phi: Any) -> None:
    for found in (activation(phi), activation(phi, quadrature=True)):
        assert float(abs(found.chi_delta(0.7))) < 1e-12


@pytest.mark.parametrize("kernel", [1e-4, 0.3, 7.0, 1e4])
def test_known_integrals(kernel: float) -> None:
    sine, cosine, square = activation("sin"), activation("cos"), activation(lambda u: u * u)
    decay = -math.expm1(-2 * kernel) / 2
    assert float(sine.second_moment(kernel)) == pytest.approx(decay, rel=1e-11)
    assert float(cosine.slope_moment(kernel)) == pytest.approx(decay, rel=1e-11)
    assert float(cosine.mean(kernel)) == pytest.approx(math.exp(-kernel / 2), rel=1e-11, abs=1e-13)
    assert float(square.second_moment(kernel)) == pytest.approx(3 * kernel**2, rel=1e-12)
    assert float(square.product(kernel, kernel, kernel / 2)) == pytest.approx(1.5 * kernel**2)


def test_growth_beyond_the_usual_tails() -> None:
    """E[exp(u)²] = exp(2K) has its mass at u = 2K, far outside ten standard deviations."""
    grow = activation(torch.exp)
    for kernel in (1.0, 10.0, 50.0):
        assert float(grow.second_moment(kernel)) == pytest.approx(math.exp(2 * kernel), rel=1e-10)


@pytest.mark.parametrize(
    "phi", [lambda u: torch.relu(u - 0.3), lambda u: np.maximum(u - 0.3, 0), lambda u: max(u, 0.3)]
)
def test_kinks_are_found_wherever_they_are(phi: Callable[[Any], Any]) -> None:
    """E[max(u − c, 0)²] = (K + c²) Φ(−c/√K) − c √K ϕ(c/√K), up to a constant in the last case."""
    found, c = activation(phi), 0.3
    for kernel in (0.05, 1.0, 100.0):
        scaled = c / math.sqrt(kernel)
        above = math.erfc(scaled / math.sqrt(2)) / 2
        density = math.exp(-(scaled**2) / 2) / math.sqrt(2 * math.pi)
        assert float(found.slope_moment(kernel)) == pytest.approx(above, rel=1e-10)
        assert float(found.chi_delta(kernel)) == pytest.approx(
            density * scaled / (2 * kernel), rel=1e-8
        )
        if float(found.function(np.zeros(1))[0]) == 0:
            second = (kernel + c**2) * above - c * math.sqrt(kernel) * density
            assert float(found.second_moment(kernel)) == pytest.approx(second, rel=1e-10)


def test_derivatives_need_not_be_given() -> None:
    u = np.linspace(-9, 9, 1001)
    for phi, slope in (
        (np.tanh, 1 / np.cosh(u) ** 2),
        (lambda u: 1 / (1 + math.exp(-u)), 1 / (2 + 2 * np.cosh(u))),
        (np.abs, np.sign(u)),
        (lambda u: np.sin(7 * np.asarray(u)), 7 * np.cos(7 * u)),
    ):
        inside = np.abs(u) > 1e-12
        found = activation(phi).function.derivative(u)
        assert np.abs(found - slope)[inside].max() < 1e-10 * np.abs(slope).max()


def test_the_derivative_of_a_torch_function_is_that_of_autograd() -> None:
    """A straight-through estimator has another derivative than its values; J sees the former."""

    class Sign(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, u: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(u)
            return u.sign()

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            (u,) = ctx.saved_tensors
            return grad * (u.abs() <= 1)

    sign = activation(Sign.apply)
    assert float(sign.second_moment(2.0)) == pytest.approx(1, rel=1e-12)
    assert float(sign.slope_moment(2.0)) == pytest.approx(math.erf(0.5), rel=1e-10)


def test_limits_at_zero() -> None:
    for name in ("tanh", "gelu", "softplus", "selu", "erf", "relu"):
        phi = activation(name)
        at_zero, small = phi.slope_moment(0.0), phi.slope_moment(1e-9)
        assert float(at_zero) == pytest.approx(float(small), rel=1e-4)
        assert float(phi.second_moment(0.0)) == pytest.approx(
            float(phi.function(np.zeros(1))[0] ** 2)
        )
    assert float(activation("softplus").product(0.0, 4.0, 0.0)) == pytest.approx(
        math.log(2) * float(activation("softplus").mean(4.0)), rel=1e-10
    )


def test_arrays_and_numbers() -> None:
    for phi in (activation("gelu"), activation("tanh")):
        found = phi.second_moment(np.array([[0.5, 1.0], [2.0, 4.0]]))
        assert found.shape == (2, 2)
        assert float(found[1, 0]) == float(phi.second_moment(2.0))
        assert phi.product([1.0, 2.0], 2.0, [0.5, -0.5]).shape == (2,)
        assert (
            phi.chi_j([1.0, 2.0], sigma_w=2.0).tolist()
            == (4 * phi.slope_moment([1.0, 2.0])).tolist()
        )


MODULES: list[tuple[Any, str]] = [
    (nn.ReLU(), "relu"),
    (nn.ReLU(inplace=True), "relu"),
    (nn.Identity(), "linear"),
    (nn.LeakyReLU(0.01), "leaky_relu"),
    (nn.GELU(), "gelu"),
    (nn.GELU(approximate="tanh"), "gelu_tanh"),
    (nn.SiLU(inplace=True), "silu"),
    (nn.ELU(inplace=True), "elu"),
    (nn.Tanh(), "tanh"),
    (nn.PReLU(init=0.01), "leaky_relu"),
    (F.relu, "relu"),
    (torch.tanh, "tanh"),
    (torch.special.erf, "erf"),
    ("Leaky-ReLU", "leaky_relu"),
    ("SELU", "selu"),
]


@pytest.mark.parametrize(("phi", "name"), MODULES, ids=[f"{i}" for i in range(len(MODULES))])
def test_everything_that_means_the_same_is_the_same(phi: Any, name: str) -> None:
    found, expected = activation(phi), activation(name)
    for moment in ("second_moment", "slope_moment"):
        a, b = getattr(found, moment)(1.7), getattr(expected, moment)(1.7)
        assert float(a) == pytest.approx(float(b), rel=1e-7)  # PReLU keeps 0.01 as a float32


def test_a_module_is_left_as_it_is() -> None:
    module = nn.PReLU()
    activation(module)
    assert module.weight.dtype is torch.float32
    assert module.weight.grad is None


class Mixing(nn.Module):
    def forward(self, u: torch.Tensor) -> torch.Tensor:
        return torch.softmax(u, -1)


BAD: list[tuple[Any, str]] = [
    ("rleu", "Did you mean 'relu'"),
    ("gellu", "Did you mean 'gelu'"),
    ("xyzzyx", "Known are"),
    (3.0, "neither the name"),
    (lambda u: u[:2], "shape"),
    (lambda u: u.sum(), "shape"),
    (Mixing(), "mixes elements"),
    (nn.Dropout(0.5), "another value"),
    (torch.log, "must be finite"),
    (lambda u: np.sqrt(np.abs(u)) / (np.asarray(u) > 0), "must be finite"),
    (lambda u: u + None, "cannot be called"),
    (nn.Linear(3, 3), "cannot be called"),
]


@pytest.mark.parametrize(("phi", "message"), BAD, ids=[m for _, m in BAD])
def test_what_is_no_activation_is_refused(phi: Any, message: str) -> None:
    torch.manual_seed(0)
    with pytest.raises(ActivationError, match=message) as caught:
        activation(phi)
    assert isinstance(caught.value, CritinitError)


def test_a_jump_has_no_derivative() -> None:
    step = activation(lambda u: np.where(np.greater(u, 0.25), 1.0, 0.0))
    above = math.erfc(0.25 / math.sqrt(2)) / 2
    assert float(step.second_moment(1.0)) == pytest.approx(above, rel=1e-10)
    with pytest.raises(ActivationError, match=r"jumps at 0\.25"):
        step.slope_moment(1.0)


def test_a_function_that_is_nowhere_smooth_is_refused() -> None:
    rough = activation(lambda u: np.sin(1e7 * np.asarray(u)))
    with pytest.raises(ActivationError, match="too rough"):
        rough.second_moment(1.0)


def test_low_precision_inside_costs_only_precision() -> None:
    """A function that computes in float32 has rounding errors on which no panel is smooth."""
    single = activation(lambda u: torch.tanh(u.float()).double())
    expected = float(activation("tanh").second_moment(1.0))
    assert float(single.second_moment(1.0)) == pytest.approx(expected, rel=1e-6)


def test_a_function_that_raises_far_out() -> None:
    own = activation(lambda u: 1 / (1 + math.exp(-u)))  # overflows at −710
    expected = activation("sigmoid").second_moment(9.0)
    assert float(own.second_moment(9.0)) == pytest.approx(float(expected), rel=1e-12)
    with pytest.raises(ActivationError, match="OverflowError"):
        own.second_moment(1e4)


def test_bad_kernels_are_refused() -> None:
    phi = activation("gelu")
    for kernel in (-1.0, math.nan, [1.0, -1e-9]):
        with pytest.raises(TheoryError, match="variance is needed"):
            phi.second_moment(kernel)
    with pytest.raises(DivergenceError, match="overflows"):
        phi.slope_moment(math.inf)
    with pytest.raises(TheoryError, match="no covariance"):
        phi.product(1.0, 1.0, 1.1)
    with pytest.raises(TheoryError, match="negative"):
        phi.chi_j(1.0, sigma_w=-1.0)
    with pytest.raises(ActivationError, match="must be finite"):
        activation(torch.exp).second_moment(1e5)
