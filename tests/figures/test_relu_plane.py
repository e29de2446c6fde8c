"""The plane of ReLU networks, computed at once, is what `critinit.SGD` finds point by point."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import critinit
from critinit.figures._relu_plane import Descent, ReluPlane
from critinit.models import mlp
from critinit.solvers._problem import Problem, Solution

LOSSES = {"jll": critinit.JLL(), "jsl": critinit.JSL()}
INPUTS, WIDTH, DEPTH, BATCH = 20, 32, 4, 16


class Watched(critinit.SGD):
    """Remembers where its probes start."""

    def solve(self, problem: Problem) -> Solution:
        object.__setattr__(self, "state", problem.probes.generator.get_state())
        return super().solve(problem)


def network(sigma_w: float) -> nn.Sequential:
    torch.manual_seed(1)
    return mlp(WIDTH, DEPTH, inputs=INPUTS, sigma_w=sigma_w)


def batch() -> Tensor:
    return torch.randn(BATCH, INPUTS, generator=torch.Generator().manual_seed(2))


def slow(loss: str, eta: float, sigma_w: float, steps: int) -> tuple[Any, list[float], Tensor]:
    """The multipliers and J that tuning the network itself leads to, and its probes' state."""
    model, solver = network(sigma_w), Watched(eta, steps, eps=0.0)
    multipliers = critinit.tune_(model, batch(), LOSSES[loss], solver).multipliers
    a = [value for name, value in multipliers.items() if name.endswith("weight")]
    profile = critinit.measure(model, batch(), method="exact")
    return solver.state, a[1:], profile.apjn[1:]  # type: ignore[attr-defined]


def fast(state: Tensor, loss: str, eta: float, sigma_w: float, steps: int) -> Descent:
    generator = torch.Generator()
    generator.set_state(state)
    weights = [p.detach() for p in network(1.0).parameters() if p.ndim == 2]
    plane = ReluPlane(weights, batch(), steps, generator)
    return plane.descend(np.array([eta]), np.array([sigma_w]), [loss])


@pytest.mark.parametrize("steps", [1, 2, 40])
@pytest.mark.parametrize(
    ("loss", "eta", "sigma_w"),
    [
        ("jll", 0.3, 1.0),
        ("jll", 0.05, 3.0),
        ("jll", 0.45, 1.4),
        ("jsl", 0.3, 1.0),
        ("jsl", 0.1, 1.8),
    ],
)
def test_points_that_converge(loss: str, eta: float, sigma_w: float, steps: int) -> None:
    state, a, j = slow(loss, eta, sigma_w, steps)
    found = fast(state, loss, eta, sigma_w, steps)
    np.testing.assert_allclose(found.a[0], a, rtol=2e-5)
    np.testing.assert_allclose(found.apjn[0], j, rtol=5e-5)


@pytest.mark.parametrize(
    ("loss", "eta", "sigma_w", "steps"),
    [("jll", 0.6, 2.2, 1), ("jsl", 0.4, 1.9, 3), ("jsl", 0.05, 3.0, 2), ("jsl", 0.6, 2.2, 1)],
)
def test_steps_that_turn_multipliers_negative(
    loss: str, eta: float, sigma_w: float, steps: int
) -> None:
    """Other units are active then."""
    state, a, j = slow(loss, eta, sigma_w, steps)
    assert min(a) < 0 < max(a) or max(a) < 0
    found = fast(state, loss, eta, sigma_w, steps)
    np.testing.assert_array_equal(np.sign(found.a[0]), np.sign(a))
    np.testing.assert_allclose(found.a[0], a, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(found.apjn[0], j, rtol=2e-3)


def test_signs_matter() -> None:
    """The test above would notice if they were left out: other units are active, by far."""
    plane = ReluPlane(
        [p.detach() for p in network(1.0).parameters() if p.ndim == 2],
        batch(),
        2,
        torch.Generator().manual_seed(0),
    )
    last = plane.mean_g[-1]
    assert len(last) == 2 ** (DEPTH - 1)
    assert last.std() / last.mean() > 0.02


def test_a_step_that_diverges_is_not_a_number() -> None:
    weights = [p.detach() for p in network(1.0).parameters() if p.ndim == 2]
    plane = ReluPlane(weights, batch(), 40, torch.Generator().manual_seed(0))
    found = plane.descend(np.array([5.0, 0.1]), np.array([4.0, 1.0]), ["jsl", "jsl"])
    assert not np.isfinite(found.apjn[0]).all()
    assert np.isfinite(found.apjn[1]).all()
