"""Learning rates and the dynamics of tuning."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import pytest

from critinit import theory
from critinit.theory import TheoryError
from critinit.theory._table import Tabulated

GRID = np.array([0.3, 0.9, 1.3, 2.0, 3.5])


def printed_one_step(j: float, sigma_w: float, loss: str) -> float:
    """Eq. 1step_lr and its JSL form, as printed."""
    root = math.sqrt(j)
    if loss == "jll":
        return (root - 1) * root / (sigma_w**2 * math.log(j))
    return 1 / (sigma_w**2 * root * (1 + root))


def printed_eta_0(sigma_w: float, a_w: float, loss: str) -> float:
    """Eq. eta_0_jl and its JSL form, as printed."""
    if loss == "jll":
        return (
            (a_w * sigma_w - 2**0.5)
            * a_w
            / (sigma_w * (math.log((a_w * sigma_w) ** 2) - math.log(2)))
        )
    return 4 / (sigma_w**3 * a_w * (2**0.5 + a_w * sigma_w))


@pytest.mark.parametrize("loss", ["jll", "jsl"])
@pytest.mark.parametrize("sigma_w", GRID)
def test_rates_are_as_printed(loss: theory.gradients.Loss, sigma_w: float) -> None:
    for j in (0.01, 0.5, 0.999, 1.2, 40.0):
        expected = printed_one_step(j, sigma_w, loss)
        assert float(theory.eta_one_step(j, sigma_w, loss)) == pytest.approx(expected, rel=1e-10)
        assert theory.eta_t([j, j], sigma_w, loss) == pytest.approx(2 * expected, rel=1e-10)
    for a_w in (0.5, 1.0, 1.7):
        expected = printed_eta_0(sigma_w, a_w, loss)
        assert float(theory.eta_0(sigma_w, loss, a_w=a_w)) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("name", ["relu", "linear", "leaky_relu"])
@pytest.mark.parametrize("loss", ["jll", "jsl"])
def test_one_step_is_enough(name: str, loss: theory.gradients.Loss) -> None:
    j = theory.mlp(3, name, sigma_w=GRID[0]).apjn[1]
    for sigma_w in GRID:
        j = float(theory.mlp(3, name, sigma_w=sigma_w).apjn[1])
        eta = theory.eta_one_step(j, sigma_w, loss, name)
        after = theory.dynamics(loss, eta=eta, sigma_w=sigma_w, activation=name, depth=3, steps=1)
        np.testing.assert_allclose(after.apjn[1:], 1, rtol=1e-9)


@pytest.mark.parametrize("loss", ["jll", "jsl"])
def test_the_bound_is_sharp(loss: theory.gradients.Loss) -> None:
    """Just below η_t, |√J − 1| shrinks in the next step; just above, it grows."""
    for sigma_w in GRID:
        start = sigma_w / 2**0.5
        for factor, shrinks in ((0.99, True), (1.01, False)):
            eta = factor * theory.eta_0(sigma_w, loss)
            after = theory.dynamics(loss, eta=eta, sigma_w=sigma_w, depth=2, steps=1)
            # the multiplier may have changed its sign, and with it that of √J
            root = float(after.a_w[1]) * sigma_w / 2**0.5
            assert bool(abs(root - 1) < abs(start - 1)) is shrinks


def test_rates_at_criticality() -> None:
    """0/0 in print: the limit is 1/(2σ_w²)."""
    assert float(theory.eta_one_step(1.0, 2**0.5)) == pytest.approx(0.25)
    assert float(theory.eta_one_step(1 + 1e-9, 2**0.5)) == pytest.approx(0.25)
    assert theory.eta_t([1.0, 9.0], 1.0) == pytest.approx(1.0)  # JLL's rate grows with J


def test_rates_that_do_not_exist() -> None:
    with pytest.raises(TheoryError, match="not for tanh"):
        theory.eta_0(1.0, activation="tanh")
    with pytest.raises(TheoryError, match="not for loss='jkl'"):
        theory.eta_0(1.0, loss="jkl")
    for j in (0.0, -1.0, math.inf):
        with pytest.raises(TheoryError, match="positive"):
            theory.eta_one_step(j, 1.0)


@pytest.mark.parametrize("loss", ["jll", "jsl"])
def test_relu_dynamics_are_the_printed_iteration(loss: theory.gradients.Loss) -> None:
    """Eq. relu_jupdate and eq. j_update_jsl, one point and one step at a time."""
    eta, sigma_w, steps = np.geomspace(0.01, 0.5, 6)[:, None], np.linspace(0.4, 2.5, 5), 15
    found = theory.dynamics(loss, eta=eta, sigma_w=sigma_w, depth=3, steps=steps, history=True)
    assert found.history is not None
    for row in range(6):
        for column in range(5):
            root, w = sigma_w[column] / 2**0.5, sigma_w[column] ** 2
            for step in range(steps + 1):
                seen = found.history[step, 1:, row, column]
                if not math.isfinite(root) or abs(root) > 1e3:
                    break
                np.testing.assert_allclose(seen, root**2, rtol=1e-6)
                j = root**2
                pull = math.log(j) / root if loss == "jll" else root * (j - 1)
                root -= eta[row, 0] * w * pull
    assert np.array_equal(found.history[-1], found.apjn, equal_nan=True)


@pytest.mark.parametrize("loss", ["jll", "jsl", "jkl"])
@pytest.mark.parametrize("name", ["relu", "gelu", "erf", "tanh"])
def test_dynamics_follow_the_gradient(name: str, loss: theory.gradients.Loss) -> None:
    """Against a plain loop over `loss_gradient`, in which isolated and depth terms are apart."""
    eta, sigma_w, depth, steps = np.array([0.01, 0.03]), np.array([[0.9], [1.6]]), 4, 5
    found = theory.dynamics(
        loss, eta=eta, sigma_w=sigma_w, sigma_b=0.3, activation=name, depth=depth, steps=steps,
        lam=0.4,
    )  # fmt: skip
    for row in range(2):
        for column in range(2):
            setting = {"sigma_w": float(sigma_w[row, 0]), "sigma_b": 0.3}
            a_w, a_b = np.ones((2, depth + 1))
            for _ in range(steps):
                gradient = theory.loss_gradient(
                    depth, name, **setting, a_w=a_w, a_b=a_b, loss=loss, lam=0.4
                )
                a_w = a_w - eta[column] * gradient.weight
                a_b = a_b - eta[column] * gradient.bias
            expected = theory.mlp(depth, name, **setting, a_w=a_w, a_b=a_b)
            rtol = 1e-9 if name != "tanh" else 1e-5  # tabulated
            np.testing.assert_allclose(found.a_w[:, row, column], a_w, rtol=rtol)
            np.testing.assert_allclose(found.a_b[:, row, column], a_b, rtol=rtol)
            np.testing.assert_allclose(found.apjn[:, row, column], expected.apjn, rtol=rtol)
            np.testing.assert_allclose(found.kernel[:, row, column], expected.kernel, rtol=rtol)


@pytest.mark.parametrize("name", ["tanh", "silu", "elu", "gelu", "sin"])
def test_tables(name: str) -> None:
    phi = theory.activation(name)
    table, kernels = Tabulated(phi), np.geomspace(1e-7, 1e3, 37)
    for moment in ("second_moment", "slope_moment"):
        exact = getattr(phi, moment)(kernels)
        np.testing.assert_allclose(getattr(table, moment)(kernels), exact, rtol=1e-5)
    np.testing.assert_allclose(table.chi_k(kernels), phi.chi_k(kernels), rtol=1e-3, atol=1e-5)
    # beyond the table, as a power law
    assert float(table.second_moment(1e-12)) == pytest.approx(
        float(phi.second_moment(1e-12)), rel=1e-4
    )


@pytest.mark.parametrize("loss", ["jll", "jsl"])
def test_the_figure_in_seconds(loss: theory.gradients.Loss) -> None:
    """Fig. relu_jac: 1,200 points, 980 steps. Trainable where η_t allows it all the way to J = 1.

    η_t is monotonic in J, so that it is the smaller of η_0 and its value 1/σ_w² at J = 1.
    """
    eta, sigma_w = np.geomspace(1e-3, 10, 30)[:, None], np.linspace(0.1, 4, 40)
    start = time.process_time()
    found = theory.dynamics(loss, eta=eta, sigma_w=sigma_w, depth=10, steps=980)
    assert time.process_time() - start < 5
    assert found.converged.shape == (30, 40)
    safe = np.minimum(theory.eta_0(sigma_w, loss), 1 / sigma_w**2)
    enough = eta * sigma_w**2 * 980 > 20
    assert found.converged[enough & (eta < 0.95 * safe)].all()
    assert not found.converged[(eta > 1.05 / sigma_w**2) & (eta > 1.05 * safe)].all()
    assert found.converged[eta * sigma_w**2 > 1.5].mean() < 0.05
    assert not (found.converged & found.diverged).any()


def test_jsl_diverges_where_jll_does_not() -> None:
    """The paper's case against JSL: its largest rate falls as σ_w⁻⁴."""
    large = np.linspace(4, 8, 5)
    assert theory.dynamics("jll", eta=0.2, sigma_w=large).diverged.sum() == 0
    assert theory.dynamics("jsl", eta=0.2, sigma_w=large).diverged.all()


def test_jkl_of_relu_without_biases_is_a_multiple_of_jll() -> None:
    """(1 + λ) JLL: so the same with η (1 + λ), for the blocks that both count."""
    sigma_w = np.array([0.8, 1.2, 2.2])
    jkl = theory.dynamics("jkl", eta=0.02, sigma_w=sigma_w, lam=0.5, steps=30)
    jll = theory.dynamics("jll", eta=0.03, sigma_w=sigma_w, steps=30)
    np.testing.assert_allclose(jkl.apjn[1:], jll.apjn[1:], rtol=1e-9)


def test_tuning_brings_gelu_and_tanh_to_criticality() -> None:
    for name in ("gelu", "tanh"):
        found = theory.dynamics(
            eta=0.04, sigma_w=np.array([0.8, 1.5, 2.0]), sigma_b=0.3, activation=name, steps=400
        )
        assert found.converged.all()
        assert np.abs(found.apjn[1:] - 1).max() < 0.05


def test_bad_settings() -> None:
    with pytest.raises(TheoryError, match="loss='mse'"):
        theory.dynamics("mse", eta=0.1, sigma_w=1.0)
    with pytest.raises(TheoryError, match="is negative"):
        theory.dynamics(eta=-0.1, sigma_w=1.0)
    with pytest.raises(TheoryError, match="steps"):
        theory.dynamics(eta=0.1, sigma_w=1.0, steps=0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.loss_gradient(3, sigma_w=1.0, kernel=0.0), "kernel=.*above zero"),
        (lambda: theory.loss_gradient(3, sigma_w=0.0), "sigma_w=.*above zero"),
        (lambda: theory.dynamics(eta=0.1, sigma_w=0.0), "sigma_w=.*above zero"),
        (lambda: theory.dynamics(eta=[0.1, 0.2], sigma_w=[1.0, 2.0, 3.0]), "one grid"),
        (lambda: theory.mlp(3, sigma_w=1.0, kernel=[1.0, 2.0]), "a single number"),
    ],
)
def test_where_nothing_is_defined_an_error_says_so(call: Any, message: str) -> None:
    with pytest.raises(TheoryError, match=message):
        call()
