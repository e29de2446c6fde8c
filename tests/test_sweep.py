"""The sweep's parts against slow references: derivatives, noise, polish, and what it holds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from cases import CASES
from torch import Tensor, nn

import critinit
from critinit._state import untouched
from critinit.apjn import VJP, Probes
from critinit.chain._inputs import read_batches
from critinit.measurement import find_and_measure
from critinit.models import mlp
from critinit.solvers._equation import Accuracy, Equation
from critinit.solvers._polish import Polish
from critinit.solvers._problem import Problem, twice_differentiable
from critinit.solvers._step import damped_step, secant
from critinit.solvers.sgd import differentiate
from critinit.twin import Twin, choose_parameters


def problem_of(
    model: nn.Module, inputs: Any, loss: Any, count: int = 4, noise: Any = "rademacher"
) -> Problem:
    generator = torch.Generator().manual_seed(0)
    probes = Probes(count, generator, noise)
    chain, before = find_and_measure(model, inputs, None, 1, VJP(probes), generator, None)
    return Problem(
        chain=chain,
        twin=Twin(model, choose_parameters(model, None), chain.opened),
        loss=loss,
        alive=before.apjn > 0,
        batches=partial(read_batches, model, inputs),
        probes=probes,
        report=lambda done, total: None,
    )


class _Equations:
    """An observer that shows every block's equation to a test."""

    def __init__(
        self, problem: Problem, products: Any, a: dict[str, Tensor], check: Callable[..., None]
    ) -> None:
        self.problem, self.products, self.a, self.check = problem, products, a, check

    def enter(self, h: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(t.detach().requires_grad_() for t in h)

    def leave(self, index: int, h: Any, out: Any, tape: Any) -> Any:
        names = [n for n in self.problem.chain[index].parameters if n in self.a]
        accuracy = Accuracy(tol=0.02, max_evals=8, max_probes=4)
        size = next(self.problem.batches()).size
        args = self.problem, accuracy, index, names, self.products, h, tape, size
        self.check(Equation(*args), {n: self.a[n] for n in names}, out)
        return out


def each_equation(model: nn.Module, inputs: Any, loss: Any, check: Callable[..., None]) -> None:
    problem = problem_of(model, inputs, loss)
    a = {n: torch.ones((), requires_grad=True) for n in problem.twin.parameters}
    with untouched(model, 0), twice_differentiable(), problem.twin.applied(a) as products:
        observer = _Equations(problem, products, a, check)
        problem.chain.walk(next(problem.batches()), observer, record=True)


@pytest.mark.parametrize(
    "name",
    [
        "mlp gelu",
        "cnn batchnorm",
        "pre-bn mu=1",
        "layernorm",
        "groupnorm",
        "resmlp",
        "vit",
        "tuple boundary",
        "bare parameters",
        "parametrized",
        "functional residual",
    ],
)
def test_the_derivative_of_a_block(name: str) -> None:
    """By the multipliers, against finite differences with the same probe."""
    model, inputs = CASES[name].build()
    if name == "parametrized":
        model.eval()  # spectral norm moves with every run in training
    step = 1e-5

    def check(equation: Equation, a: dict[str, Tensor], out: Any) -> None:
        equation.accuracy = Accuracy(tol=0.02, max_evals=100, max_probes=1)
        point = equation._first(a, out)
        equation.probes = equation.probes[:1]
        seen = equation._look(equation.probes, out)
        derivative = equation._derivative(type(point)(a, out, seen))
        for column in range(len(a)):
            ends = []
            for sign in (-1, 1):
                s = torch.zeros(len(a), dtype=torch.float64)
                s[column] = sign * step
                moved = {n: x.exp().requires_grad_() for n, x in zip(a, s, strict=True)}
                equation.products.use(moved)
                again = equation.tape.replay(equation.h, equation.products.of)
                ends.append(equation._look(equation.probes, again).residuals)
            equation.products.use(a)
            expected = (ends[1] - ends[0]) / (2 * step)
            torch.testing.assert_close(
                derivative[:, column].double(), expected.double(), rtol=1e-3, atol=2e-4
            )

    each_equation(model.double(), inputs.double(), critinit.JKL(0.5), check)


def test_the_first_guess_is_exact_for_plain_layers() -> None:
    """J goes with the square of a weight that acts last, and not with its bias."""
    seen = []

    def check(equation: Equation, a: dict[str, Tensor], out: Any) -> None:
        point = equation._first(a, out)
        guessed = equation._derivative(point, equation._degrees())
        torch.testing.assert_close(guessed, equation._derivative(point), rtol=1e-4, atol=1e-5)
        seen.append(equation.index)

    each_equation(mlp(16, 4, inputs=8), torch.randn(6, 8), critinit.JKL(0.3), check)
    assert seen == [0, 1, 2, 3, 4]


def test_the_noise_is_that_of_the_probes() -> None:
    """The standard error that decides on the number of probes, against repeated draws."""
    torch.manual_seed(0)
    spread: list[float] = []
    claimed: list[float] = []

    def check(equation: Equation, a: dict[str, Tensor], out: Any) -> None:
        draw = equation.problem.probes.like
        seen = [equation._look([draw(out) for _ in range(8)], out) for _ in range(60)]
        spread.append(float(torch.stack([s.j for s in seen]).log().std()))
        claimed.append(sum(s.noise for s in seen) / len(seen))

    each_equation(mlp(64, 4, inputs=64), torch.randn(32, 64), critinit.JLL(), check)
    for found, said in zip(spread, claimed, strict=True):
        assert 0.6 < said / found < 1.4  # 60 draws tell a spread to 10 %, and said is below it


@pytest.mark.parametrize("loss", [critinit.JLL(), critinit.JKL(0.3)])
def test_polish_knows_the_whole_gradient(loss: Any) -> None:
    """Where multipliers do not turn ``h``: against backward through the whole chain."""
    torch.manual_seed(0)
    model = mlp(24, 6, inputs=24, outputs=24, sigma_w=1.2)
    x = torch.randn(16, 24)
    problem = problem_of(model, x, loss, count=1)
    weights = {n: 0.8 + 0.1 * i for i, n in enumerate(problem.twin.parameters) if "weight" in n}
    with untouched(model, 0), twice_differentiable():
        polish = Polish(problem, next(problem.batches()), [1] * len(problem.chain), weights)
        (point,) = polish.run(0)
        problem.probes.generator.set_state(polish._draws)
        a = {n: torch.tensor(value, requires_grad=True) for n, value in weights.items()}
        value, _, _ = differentiate(problem, a, next(problem.batches()))
    assert point.loss == pytest.approx(value, rel=1e-4)
    whole = torch.stack([x.grad * x.detach() for x in a.values() if x.grad is not None])
    torch.testing.assert_close(point.derivative.T @ point.residuals, whole, rtol=1e-3, atol=1e-4)


def test_polish_brings_the_loss_of_a_sweep_down() -> None:
    torch.manual_seed(0)
    model = mlp(128, 20, inputs=128, activation=nn.Tanh, sigma_w=0.5, sigma_b=0.1)
    x = torch.randn(64, 128)
    loss = critinit.JKL(0.05)
    after = {}
    for rounds in (0, 3):
        tuned = critinit.tuned(model, x, loss=loss, solver=critinit.Sweep(polish=rounds))
        profile = critinit.measure(tuned, x, probes=32)
        after[rounds] = float(loss(profile.apjn, profile.kernel))
    assert after[3] < 0.7 * after[0]


def test_a_step_is_the_shortest_that_solves() -> None:
    derivative = torch.tensor([[1.0, 2.0, 0.0], [0.0, 1.0, 1.0]])
    residuals = torch.tensor([0.5, -0.2])
    step = damped_step(derivative, residuals, damping=0.0)
    torch.testing.assert_close(derivative @ step, -residuals)
    torch.testing.assert_close(step, -torch.linalg.pinv(derivative) @ residuals)
    assert damped_step(derivative, residuals, damping=1.0).norm() < step.norm()


def test_a_secant_explains_the_last_step() -> None:
    derivative = torch.tensor([[1.0, 2.0, 0.0], [0.0, 1.0, 1.0]])
    taken, gained = torch.tensor([0.1, -0.3, 0.2]), torch.tensor([0.4, 0.1])
    updated = secant(derivative, taken, gained)
    torch.testing.assert_close(updated @ taken, gained)
    across = torch.tensor([3.0, 1.0, 0.0])  # at a right angle nothing changes
    torch.testing.assert_close(updated @ across, derivative @ across)


def test_more_probes_are_taken_where_one_is_not_enough() -> None:
    torch.manual_seed(0)
    model, x = mlp(32, 3, inputs=32, outputs=32), torch.randn(4, 32)
    counts: list[int] = []
    original = Equation._first

    def first(self: Equation, a: Any, out: Any) -> Any:
        point = original(self, a, out)
        counts.append(len(self.probes))
        return point

    Equation._first = first  # type: ignore[method-assign]
    try:
        for tol in (0.5, 0.1, 0.05):
            critinit.tuned(model, x, loss=critinit.JLL(), solver=critinit.Sweep(tol=tol))
    finally:
        Equation._first = original  # type: ignore[method-assign]
    loose, middle, tight = counts[:3], counts[3:6], counts[6:]
    assert max(loose) < min(middle) <= max(middle) < min(tight)
    assert max(counts) <= critinit.Sweep().max_probes
