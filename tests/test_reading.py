"""What `tune_` and `batch_scan` make of loaders, losses and arguments, wise and unwise."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import critinit
from critinit.solvers._problem import Problem, Solution


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4)
    )


def shuffled() -> DataLoader[Any]:
    numbered = torch.randn(64, 16)
    numbered[:, 0] = torch.arange(64)
    return DataLoader(TensorDataset(numbered), 16, shuffle=True)


class Seen:
    """A solver that notes the examples of its batches, over several rounds."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.examples: set[int] = set()

    def solve(self, problem: Problem) -> Solution:
        for _ in range(3):
            for batch in problem.batches():
                self.examples |= {int(i) for i in batch.tensors()[0][:, 0]}
        return self.inner.solve(problem)


def test_what_is_held_back_of_a_shuffling_loader_stays_held_back() -> None:
    torch.manual_seed(1)
    seen = Seen(critinit.Sweep())
    critinit.tune_(network(), shuffled(), solver=seen)
    assert len(seen.examples) == 48


@pytest.mark.parametrize("work", [critinit.tune_, critinit.batch_scan])
def test_a_shuffling_loader_moves_no_global_generator(work: Callable[..., Any]) -> None:
    model, loader = network(), shuffled()
    options = {"sizes": (4, 16)} if work is critinit.batch_scan else {}
    before = torch.get_rng_state()
    work(model, loader, **options)
    assert torch.equal(before, torch.get_rng_state())


def test_the_same_generator_gives_the_same_bits_from_a_shuffling_loader() -> None:
    found = []
    loader = shuffled()
    for seed in (5, 6):
        model = network()
        torch.manual_seed(seed)
        found.append(critinit.tune_(model, loader).multipliers)
    assert found[0] == found[1]


@pytest.mark.parametrize("solver", [critinit.Sweep(), critinit.SGD(steps=2)])
def test_inputs_that_run_dry_are_named(solver: Any) -> None:
    class Drying:
        rounds = 0

        def __iter__(self) -> Iterator[Tensor]:
            self.rounds += 1
            return iter([torch.randn(8, 16)] * (2 if self.rounds == 1 else 1))

    with pytest.raises(critinit.InputError, match="fewer batches when it was read again"):
        critinit.tune_(network(), Drying(), solver=solver)


def hooked(how: str) -> nn.Sequential:
    model = network()
    for layer in model[::2]:
        if how == "prune":
            from torch.nn.utils import prune

            prune.l1_unstructured(layer, "weight", 0.5)
        else:
            getattr(nn.utils, how)(layer)
    return model


@pytest.mark.filterwarnings("ignore:.*torch.nn.utils.*(weight|spectral)_norm:FutureWarning")
@pytest.mark.parametrize("how", ["weight_norm", "spectral_norm", "prune"])
def test_weights_that_a_hook_makes(how: str) -> None:
    """``weight`` is no parameter there: the twin must not run with what it was before the hook."""
    model, x = hooked(how), torch.randn(32, 16)
    result = critinit.tune_(model, x, loss=critinit.JLL(input=True), probes=16)
    measured = critinit.measure(model, x, method="exact")
    error = (result.after.log_apjn - measured.log_apjn).abs()
    assert (error < 5 * result.after.apjn_se / result.after.apjn + 0.02).all()
    if how != "spectral_norm":  # which divides any multiplier out again
        assert measured.log_apjn.abs().max() < 0.1


def test_frozen_parameters_are_scaled_only_if_named() -> None:
    model = network()
    model[2].requires_grad_(False)
    frozen = copy.deepcopy(model[2].state_dict())
    result = critinit.tune_(model, torch.randn(8, 16))
    assert not any(name.startswith("2.") for name in result.multipliers)
    assert all(torch.equal(frozen[key], value) for key, value in model[2].state_dict().items())
    assert critinit.tune_(model, torch.randn(8, 16), scale="2.weight").multipliers["2.weight"] != 1
    with pytest.raises(critinit.CritinitError, match="parameters are frozen"):
        critinit.tune_(model.requires_grad_(False), torch.randn(8, 16))


@pytest.mark.parametrize("solver", [critinit.Sweep(), critinit.SGD(steps=2)])
def test_a_dead_network_has_not_converged(solver: Any) -> None:
    model = network()
    nn.init.zeros_(model[4].weight)
    result = critinit.tune_(model, torch.randn(8, 16), loss=critinit.JLL(), solver=solver)
    assert not result.converged
    assert "no gradient passes 4" in result.message
    assert "4.weight" in result.message


NO_LOSSES: dict[str, tuple[Any, str]] = {
    "a name": ("JLL", "is no loss"),
    "a class": (critinit.JLL, "is no loss"),
    "many numbers": (lambda j, k: j.log() ** 2, "must return one number"),
    "a float": (lambda j, k: 1.0, "must return one number"),
    "raises": (lambda j, k: j[99].log(), "the loss raised IndexError"),
    "below zero": (lambda j, k: -j.sum(), "no sum of what single blocks add"),
    "one block of many": (lambda j, k: j[1].log() ** 2, "no sum of what single blocks add"),
}


@pytest.mark.parametrize("kind", NO_LOSSES)
def test_what_cannot_be_minimised_is_refused(kind: str) -> None:
    loss, message = NO_LOSSES[kind]
    with pytest.raises(critinit.CritinitError, match=message):
        critinit.tune_(network(), torch.randn(8, 16), loss=loss)


def test_a_loss_that_is_not_finite_stops_gradient_descent() -> None:
    with pytest.raises(critinit.CritinitError, match=r"the loss is nan at J = \("):
        critinit.tune_(
            network(),
            torch.randn(8, 16),
            loss=lambda j, k: (j - 5).log().sum(),
            solver=critinit.SGD(steps=2),
        )


@pytest.mark.parametrize(
    "call",
    [
        lambda m, x: critinit.tune_(m, x, probes=0),
        lambda m, x: critinit.tune_(m, x, solver="sweep"),
        lambda m, x: critinit.tune_(m, x, solver=critinit.Sweep),
        lambda m, x: critinit.tune_(m, 0 * x),
        lambda m, x: critinit.JKL(-1.0),
        lambda m, x: critinit.SGD(lr=-1.0),
        lambda m, x: critinit.SGD(lr="fast"),
        lambda m, x: critinit.Sweep(tol=-1.0),
        lambda m, x: critinit.reset_("m"),
        lambda m, x: critinit.reset_(m, generator=0),
        lambda m, x: critinit.fold_("m"),
        lambda m, x: critinit.batch_scan(m, x, sizes=4),
        lambda m, x: critinit.batch_scan(m, x, sizes=(4.0, 8)),
    ],
)
def test_arguments_that_make_no_sense(call: Callable[[nn.Module, Tensor], Any]) -> None:
    with pytest.raises(critinit.CritinitError):
        call(network(), torch.randn(8, 16))


def test_a_model_that_holds_multipliers_is_not_drawn_anew() -> None:
    model = network()
    critinit.tune_(model, torch.randn(8, 16), keep="frozen")
    with pytest.raises(critinit.KeepError, match="fold_"):
        critinit.reset_(model)


def test_packages_are_there_when_asked_for() -> None:
    assert critinit.theory.mlp(3, sigma_w=1.0).apjn[0] == 1.0
    with pytest.raises(AttributeError, match="no attribute 'theori'"):
        _ = critinit.theori  # type: ignore[attr-defined]
