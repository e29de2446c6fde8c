"""The twin network is the network with its parameters multiplied, and nothing else changes."""

from __future__ import annotations

import copy

import pytest
import torch
from asserts import StateOf
from cases import CASES
from torch import nn

import critinit
from critinit.chain._inputs import first_tensor, read_batches
from critinit.twin import ScaleError, Twin, choose_parameters

FIXED = [name for name, case in CASES.items() if not case.random]


def run(model: nn.Module, inputs: object) -> torch.Tensor:
    batch = next(read_batches(model, inputs))
    return first_tensor(model(*batch.args, **batch.kwargs))


@pytest.mark.parametrize("name", FIXED)
def test_it_computes_with_multiplied_parameters(name: str) -> None:
    model, inputs = CASES[name].build()
    if name == "parametrized":
        model.eval()  # spectral norm moves with every run in training
    parameters = choose_parameters(model, None)
    a = {n: torch.tensor(0.5 + 0.1 * (i % 9)) for i, n in enumerate(parameters)}
    reference = copy.deepcopy(model)
    with torch.no_grad():
        for n, p in reference.named_parameters():
            p.mul_(a[n])
    before = StateOf(model)
    with Twin(model, parameters).applied(a):
        out = run(model, inputs)
    expected = run(reference, inputs)
    tolerance = 0.05 if name == "bfloat16" else 1e-5
    torch.testing.assert_close(out, expected, rtol=tolerance, atol=tolerance)
    model.load_state_dict({n: v[1] for n, v in before.values.items()}, strict=False)  # BatchNorm
    before.assert_same()


@pytest.mark.parametrize("name", [n for n in FIXED if n != "bfloat16"])  # its rounding drowns sums
def test_gradients_by_the_multipliers(name: str) -> None:
    """By output scaling and by weight scaling alike: ⟨θ, ∂L/∂θ⟩ at a = 1."""
    model, inputs = CASES[name].build()
    if name == "parametrized":
        model.eval()
    parameters = choose_parameters(model, None)
    y = run(model, inputs)
    weights = torch.randn_like(y)
    expected = torch.autograd.grad(
        (y * weights).sum(), list(parameters.values()), allow_unused=True
    )
    for opened in ((), tuple(model.modules())):
        a = {n: torch.ones((), dtype=p.dtype, requires_grad=True) for n, p in parameters.items()}
        with Twin(model, parameters, opened).applied(a):
            found = torch.autograd.grad(
                (run(model, inputs) * weights).sum(), list(a.values()), allow_unused=True
            )
        for p, g, d in zip(parameters.values(), expected, found, strict=True):
            wanted = torch.zeros(()) if g is None else (p * g).sum()
            torch.testing.assert_close(
                torch.zeros(()) if d is None else d.float(),
                wanted.detach().float(),
                rtol=1e-3,
                atol=1e-4,
            )


def test_parameters_are_chosen() -> None:
    model, _ = CASES["cnn batchnorm"].build()

    def names(scale: object) -> list[str]:
        return list(choose_parameters(model, scale))

    assert len(names(None)) == len(list(model.parameters()))
    assert names("1.weight") == ["1.weight"]
    assert names("*.bias") == ["1.bias", "4.bias", "8.bias", "12.bias"]
    assert names(["1", "4"]) == ["1.weight", "1.bias", "4.weight", "4.bias"]
    batchnorm = ["1.weight", "1.bias", "4.weight", "4.bias", "8.weight", "8.bias"]
    assert names(nn.BatchNorm2d) == batchnorm
    assert names((nn.BatchNorm2d, nn.Linear)) == [*batchnorm, "12.weight", "12.bias"]
    assert names(lambda name, p: p.ndim == 4) == ["0.weight", "3.weight", "7.weight"]


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        ("2.weight", "matches '2.weight'"),
        (["0", "nothing"], "'nothing'"),
        (nn.LayerNorm, "selects none"),
        (3.0, "scale is a float"),
    ],
)
def test_a_choice_of_nothing_is_refused(scale: object, message: str) -> None:
    model, inputs = CASES["cnn batchnorm"].build()
    before = StateOf(model)
    with pytest.raises(ScaleError, match=message):
        critinit.tune_(model, inputs, scale=scale)
    before.assert_same()


def test_a_weight_that_is_read_without_calling_its_layer() -> None:
    """As timm's BEiT does with its query, key and value."""

    class Reads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.linear(x, self.layer.weight) + self.layer(x)

    model, x = Reads(), torch.randn(3, 4)
    weight = choose_parameters(model, "layer.weight")
    expected = x @ (2 * model.layer.weight).T * 2 + model.layer.bias
    with Twin(model, weight).applied({"layer.weight": torch.tensor(2.0)}):
        torch.testing.assert_close(model(x), expected)
