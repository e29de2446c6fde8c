"""Every method does something, and what was written from papers computes what they describe."""

from __future__ import annotations

import copy
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

PEERS = Path(__file__).parents[2] / "benchmarks" / "peers"
FILES = [path.stem for path in PEERS.glob("[!_]*.py")]


def small(bias: float = 0.1) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh())
    model.append(nn.Linear(16, 10))
    with torch.no_grad():
        for layer in model[::2]:
            layer.bias.normal_(std=bias)
    return model


@pytest.mark.parametrize("file", FILES)
def test_every_peer_draws_or_scales_a_small_mlp(scripts: Any, file: str) -> None:
    batches = scripts.tasks.tasks((8, 12), 3)
    for method in import_module(f"peers.{file}").METHODS:
        assert scripts.peers.METHODS[method.name] is method
        model = small()
        kept, before = scripts.kept.Kept.of(model), copy.deepcopy(model.state_dict())
        method.init(model, batches, min(method.steps, 3))
        assert kept.changed(model) == []
        weights = {n: p for n, p in model.named_parameters() if p.ndim > 1}
        assert all(torch.isfinite(p).all() for p in weights.values()), method.name
        assert any(not torch.equal(p, before[n]) for n, p in weights.items()), method.name


def gradient(model: nn.Module, values: dict[str, Tensor], x: Tensor, y: Tensor) -> list[Tensor]:
    values = {n: v.detach().requires_grad_() for n, v in values.items()}
    loss = F.cross_entropy(torch.func.functional_call(model, values, (x,)), y)
    return list(torch.autograd.grad(loss, list(values.values())))


def test_the_gradient_quotient_by_differences(scripts: Any) -> None:
    model = small().double()
    x, y = scripts.tasks.tasks((8, 12), 1)[0]
    x = x.double()
    values = {n: p.detach().clone().requires_grad_() for n, p in model.named_parameters()}
    found = scripts.metainit.gradient_quotient(model, values, x, y)
    g, tiny = gradient(model, values, x, y), 1e-6
    along = [
        gradient(model, {n: v + s * d for (n, v), d in zip(values.items(), g, strict=True)}, x, y)
        for s in (tiny, -tiny)
    ]
    total = 0.0
    for a, plus, minus in zip(g, *along, strict=True):
        near = a + scripts.metainit.SMALL * (2.0 * (a >= 0) - 1)
        total += float(((a - (plus - minus) / (2 * tiny)) / near - 1).abs().sum())
    assert float(found.detach()) == pytest.approx(total / sum(a.numel() for a in g), rel=1e-4)


def test_metainit_makes_the_quotient_smaller(scripts: Any) -> None:
    model, batches = small(), scripts.tasks.tasks((32, 12), 3)
    for layer in model[::2]:
        nn.init.normal_(layer.weight, std=1.0)
        nn.init.zeros_(layer.bias)

    def quotient() -> float:
        values = {n: p.detach().clone().requires_grad_() for n, p in model.named_parameters()}
        return float(scripts.metainit.gradient_quotient(model, values, *batches[0]).detach())

    before = quotient()
    scripts.metainit.metainit_from_its_paper(model, batches, 40)
    assert quotient() < 0.5 * before


def test_gradinit_looks_one_step_of_sgd_ahead(scripts: Any) -> None:
    model, batches = small(), scripts.tasks.tasks((8, 12), 2)
    weights = {n: p.detach() for n, p in model.named_parameters()}
    scales = {n: torch.tensor(0.5, requires_grad=True) for n in weights}
    found = scripts.gradinit.objective(model, weights, scales, batches, 0)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(0.5)
    (x, y), (other, labels) = batches
    F.cross_entropy(model(x), y).backward()
    norm = torch.cat([p.grad.flatten() for p in model.parameters()]).norm()
    assert norm < scripts.gradinit.BOUND, "else the norm itself would be the objective"
    torch.optim.SGD(model.parameters(), lr=scripts.gradinit.STEP).step()
    mixed = torch.cat([x[4:], other[:4]]), torch.cat([y[4:], labels[:4]])
    torch.testing.assert_close(found, F.cross_entropy(model(mixed[0]), mixed[1]))


def test_gradinit_brings_large_gradients_below_the_bound(scripts: Any) -> None:
    model, batches = small(), scripts.tasks.tasks((32, 12), 3)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(8)

    def norm() -> float:
        grads = gradient(model, dict(model.named_parameters()), *batches[0])
        return float(torch.cat([g.flatten() for g in grads]).norm())

    assert norm() > 2 * scripts.gradinit.BOUND
    scripts.gradinit.gradinit_from_its_paper(model, batches, 150)
    assert norm() < 1.3 * scripts.gradinit.BOUND
