"""Algorithm 1's gradient, through the whole chain, against differences of the loss."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

import critinit
from critinit.apjn import Probes
from critinit.models import mlp
from critinit.solvers import Problem, Solution
from critinit.solvers.sgd import differentiate

STEP = 1e-5


class Differences:
    """A solver that only looks: at the gradient of the loss, and at its central differences."""

    gradient: Tensor
    differences: Tensor

    def solve(self, problem: Problem) -> Solution:
        batch = next(problem.batches())

        def loss(a: dict[str, Tensor]) -> float:
            probes = Probes(2, torch.Generator().manual_seed(1), "gaussian")  # the same each time
            return differentiate(replace(problem, probes=probes), a, batch)[0]

        drawn = torch.Generator().manual_seed(2)
        a = {
            name: (0.7 + 0.6 * torch.rand((), generator=drawn)).double().requires_grad_()
            for name in problem.twin.parameters
        }
        loss(a)
        self.gradient = torch.stack([each.grad for each in a.values() if each.grad is not None])
        self.differences = torch.tensor(
            [
                loss(a | {name: (a[name] + STEP).detach().requires_grad_()})
                - loss(a | {name: (a[name] - STEP).detach().requires_grad_()})
                for name in a
            ],
            dtype=torch.double,
        ) / (2 * STEP)
        return Solution(dict.fromkeys(a, 1.0), [], True, "")


def test_the_gradient_is_that_of_the_loss() -> None:
    """Terms of later blocks and K's included: GELU has both, and so have biases."""
    torch.manual_seed(0)
    model = mlp(8, 3, inputs=6, outputs=5, activation=nn.GELU, sigma_w=1.4, sigma_b=0.5).double()
    found = Differences()
    x = torch.randn(7, 6, dtype=torch.double)
    critinit.tune_(model, x, critinit.JKL(0.5), found)
    assert len(found.gradient) == 8
    assert found.gradient.abs().min() > 1e-3, "every multiplier matters"
    torch.testing.assert_close(found.gradient, found.differences, rtol=1e-7, atol=1e-9)
