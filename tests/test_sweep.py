"""The sweep's parts against slow references: derivatives, noise, polish, and what it holds."""

from __future__ import annotations

import dataclasses
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
from critinit.models import ln_mlp, mlp
from critinit.solvers._closed import ClosedForm
from critinit.solvers._equation import Accuracy, Equation
from critinit.solvers._plain import PlainLayer
from critinit.solvers._polish import Polish
from critinit.solvers._problem import Problem, kernel, twice_differentiable
from critinit.solvers._seen import BlockRun
from critinit.solvers._step import damped_step, secant
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
        seen = equation._block_run(out).look(equation.probes)
        if float(seen.j) == 0:  # a head of zeros has no log J
            return
        derivative = equation._derivative(type(point)(a, out, seen))
        for column in range(len(a)):
            ends = []
            for sign in (-1, 1):
                s = torch.zeros(len(a), dtype=torch.float64)
                s[column] = sign * step
                moved = {n: x.exp().requires_grad_() for n, x in zip(a, s, strict=True)}
                equation.products.use(moved)
                again = equation.tape.replay(equation.h, equation.products.of)
                ends.append(equation._block_run(again).look(equation.probes).residuals)
            equation.products.use(a)
            expected = (ends[1] - ends[0]) / (2 * step)
            torch.testing.assert_close(
                derivative[:, column].double(), expected.double(), rtol=1e-3, atol=2e-4
            )
        checked.append(equation.index)

    checked: list[int] = []
    each_equation(model.double(), inputs.double(), critinit.JKL(0.5), check)
    assert len(checked) > 1


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
        run = equation._block_run(out)
        seen = [run.look(equation._draw(8, out)) for _ in range(60)]
        spread.append(float(torch.stack([s.j for s in seen]).log().std()))
        claimed.append(sum(s.noise for s in seen) / len(seen))

    each_equation(mlp(64, 4, inputs=64), torch.randn(32, 64), critinit.JLL(), check)
    for found, said in zip(spread, claimed, strict=True):
        assert 0.6 < said / found < 1.4  # 60 draws tell a spread to 10 %, and said is below it


@pytest.mark.parametrize("loss", [critinit.JLL(), critinit.JKL(0.3)])
@pytest.mark.parametrize("activation", [nn.ReLU, nn.PReLU])
def test_polish_knows_the_whole_gradient(loss: Any, activation: Callable[[], nn.Module]) -> None:
    """Where multipliers do not turn ``h``: against finite differences through the whole chain."""
    torch.manual_seed(0)
    model = mlp(24, 6, inputs=24, outputs=24, sigma_w=1.2, activation=activation).double()
    problem = problem_of(model, torch.randn(16, 24).double(), loss, count=1)
    weights = {
        n: 0.8 + 0.1 * i
        for i, (n, p) in enumerate(problem.twin.parameters.items())
        if n.endswith("weight") and p.ndim == 2
    }
    with untouched(model, 0), twice_differentiable():
        polish = Polish(problem, next(problem.batches()), [1] * len(problem.chain), {}, weights)
        here = polish._linearized(polish.start)
        gradient = here.derivative.T @ here.residuals
        for column in range(len(weights)):
            step = torch.zeros(len(weights), dtype=torch.float64)
            step[column] = 1e-2
            ends = [polish._linearized(polish.start + sign * step).loss for sign in (1, -1)]
            assert float(gradient[column]) == pytest.approx((ends[0] - ends[1]) / 2e-2, rel=0.01)


def test_polish_brings_the_loss_of_a_sweep_down() -> None:
    torch.manual_seed(0)
    model = mlp(128, 20, inputs=128, activation=nn.GELU, sigma_w=0.5, sigma_b=0.1)
    x = torch.randn(64, 128)
    loss = critinit.JKL(0.5)
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
    model, x = ln_mlp(32, 3, inputs=32, outputs=32, mu=0.0, sigma_w=1.0), torch.randn(4, 32)
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


PLAIN: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (lambda: nn.Sequential(nn.Linear(9, 7)), (5, 9)),
    "tokens": (lambda: nn.Sequential(nn.GELU(), nn.Linear(9, 7)), (5, 3, 9)),
    "flattened": (lambda: nn.Sequential(nn.Tanh(), nn.Flatten(), nn.Linear(24, 7)), (5, 6, 2, 2)),
    "dropout": (lambda: nn.Sequential(nn.SiLU(), nn.Dropout(0.4), nn.Linear(9, 7)), (5, 9)),
    "conv": (lambda: nn.Sequential(nn.ReLU(), nn.Conv2d(4, 6, 3, padding=1)), (5, 4, 7, 7)),
    "stride": (lambda: nn.Sequential(nn.ELU(), nn.Conv2d(4, 6, 3, stride=2)), (5, 4, 7, 8)),
    "groups": (lambda: nn.Sequential(nn.Conv2d(4, 8, 3, groups=2, dilation=2)), (5, 4, 7, 7)),
    "conv1d": (lambda: nn.Sequential(nn.ReLU(), nn.Conv1d(4, 6, 5, bias=False)), (5, 4, 11)),
}
NOT_PLAIN: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "pooled": (lambda: nn.Sequential(nn.AvgPool1d(3, 1, 1), nn.Linear(9, 7)), (5, 9)),
    "layernorm": (lambda: nn.Sequential(nn.LayerNorm(9), nn.Linear(9, 7)), (5, 9)),
    "softmax": (lambda: nn.Sequential(nn.Softmax(-1), nn.Linear(9, 7)), (5, 9)),
    "turned": (lambda: nn.Sequential(nn.Unflatten(1, (3, 3)), Turned(), nn.Linear(9, 7)), (5, 9)),
    "circular": (
        lambda: nn.Sequential(nn.Conv2d(4, 6, 3, padding=1, padding_mode="circular")),
        (5, 4, 7, 7),
    ),
    "activated": (lambda: nn.Sequential(nn.Linear(9, 7), nn.ReLU()), (5, 9)),
}


class Turned(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2).flatten(1)


def as_one_block(name: str, make: Callable[[], nn.Module], shape: tuple[int, ...]) -> Any:
    torch.manual_seed(0)
    model, x = make().double(), torch.randn(shape).double()
    chain = critinit.trace(model, x).merge(10)
    assert len(chain) == 1
    twin = Twin(model, choose_parameters(model, None))
    return model, x, chain, twin


def run_of(problem: Problem, out: Any, h: Any, plain: PlainLayer | None) -> BlockRun:
    return BlockRun(problem, 0, h, kernel(h).detach(), out, len(h[0]), plain)


@pytest.mark.parametrize("name", PLAIN)
def test_j_of_a_plain_layer_is_exact(name: str) -> None:
    """Against the full Jacobian; and its derivative by the multiplier, and the closed form."""
    model, x, chain, twin = as_one_block(name, *PLAIN[name])
    problem = problem_of(model, x, critinit.JKL(0.3))
    problem = dataclasses.replace(problem, chain=chain, twin=twin)
    a = {n: torch.tensor(1.0 + 0.2 * i, requires_grad=True) for i, n in enumerate(twin.parameters)}
    s = torch.tensor([0.3, -0.5, 0.1]).double()[: len(a)]

    def look(a: dict[str, Tensor]) -> tuple[BlockRun, Any, Tensor]:
        h = x.clone().requires_grad_()
        torch.manual_seed(1)  # the same dropout
        with twin.applied(a):
            out = model(h.clone())
            plain = PlainLayer.found((out,), (h,))
            assert plain is not None
            run = run_of(problem, (out,), (h,), plain)
            rows = [torch.autograd.grad(y, h, retain_graph=True)[0] for y in out.flatten()]
            return run, run.look([]), torch.stack(rows).square().sum() / out.numel()

    run, seen, exact = look(a)
    torch.testing.assert_close(seen.j, exact, rtol=1e-6, atol=0)
    with twin.applied(a):
        j = run.differentiable_j([])
        (slope,) = torch.autograd.grad(j, next(iter(a.values())))
        closed = ClosedForm.found(run, seen, list(a))
    first = next(iter(a.values()))
    assert float(slope * first.detach()) == pytest.approx(2 * float(j.detach()), rel=1e-6)
    assert closed is not None
    (out,), moved = closed.at(s)
    there, looked, _ = look(
        {n: (x * y.exp()).float() for (n, x), y in zip(a.items(), s, strict=True)}
    )
    torch.testing.assert_close(out, there.out[0], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(moved.j, looked.j, rtol=1e-5, atol=0)
    torch.testing.assert_close(moved.k, looked.k, rtol=1e-5, atol=0)


@pytest.mark.parametrize("name", NOT_PLAIN)
def test_what_is_no_plain_layer(name: str) -> None:
    model, x, _, twin = as_one_block(name, *NOT_PLAIN[name])
    h = x.clone().requires_grad_()
    with twin.applied({n: torch.ones((), requires_grad=True) for n in twin.parameters}):
        assert PlainLayer.found((model(h.clone()),), (h,)) is None


@pytest.mark.parametrize("loss", [critinit.JLL(), critinit.JSL(), critinit.JKL(0.3)])
def test_the_closed_form_finds_what_running_the_block_finds(loss: Any) -> None:
    found = {}
    for closed in (True, False):
        torch.manual_seed(0)
        model = mlp(64, 5, inputs=64, activation=nn.Tanh, sigma_w=2.0, sigma_b=0.3)
        x = torch.randn(32, 64)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("critinit.solvers._closed._PRICE", 0.0)
            if not closed:
                patch.setattr(ClosedForm, "found", lambda *_: None)
            solver = critinit.Sweep(polish=0, max_evals=40)
            result = critinit.tune_(model, x, loss=loss, solver=solver)
        found[closed] = sum(step.loss for step in result.history)
    assert found[True] < 1.05 * found[False] + 1e-5
