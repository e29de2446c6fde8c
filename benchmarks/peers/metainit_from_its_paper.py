"""MetaInit, written from what its paper says; for the benchmarks only.

Dauphin and Schoenholz, "MetaInit: Initializing learning by learning to initialize" (2019): the norm
of every weight tensor is learned so that the gradient quotient is small, that is how much each
component of the gradient changes, relatively, along a step against the gradient. The inputs are
Gaussian and the labels random, so no data is needed; the descent is on signs, with momentum.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from peers._method import Batches, Method
from peers._task import cross_entropy

STEPS = 500
RATE, MOMENTUM = 0.1, 0.9
SMALL = 1e-5  # keeps the quotient finite


def metainit_from_its_paper(model: nn.Module, batches: Batches, steps: int) -> None:
    values = {n: p.detach().clone() for n, p in model.named_parameters()}
    for name, parameter in model.named_parameters():
        if name.rpartition(".")[2] == "bias" and parameter.requires_grad:
            values[name].zero_()
        values[name].requires_grad_(parameter.requires_grad)
    weights = {n: v for n, v in values.items() if v.requires_grad and v.ndim > 1 and v.any()}
    velocity = dict.fromkeys(weights, 0.0)
    generator = torch.Generator().manual_seed(0)
    with sdpa_kernel(SDPBackend.MATH):
        for i in range(steps):
            x, y = batches[i % len(batches)]
            if x.is_floating_point():
                x = torch.randn(x.shape, generator=generator, dtype=x.dtype)
            y = y[torch.randperm(len(y), generator=generator)]
            quotient = gradient_quotient(model, values, x, y)
            slopes = torch.autograd.grad(quotient, list(weights.values()), allow_unused=True)
            for (name, weight), slope in zip(weights.items(), slopes, strict=True):
                if slope is not None:
                    velocity[name] = _moved(weight, slope, velocity[name])
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(values[name])


def gradient_quotient(model: nn.Module, values: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
    """The mean of ``|(g − Hg) / (g + ε) − 1|`` over all components of the gradient g."""
    asked = [v for v in values.values() if v.requires_grad]
    loss = cross_entropy(model, values, x, y)
    found = torch.autograd.grad(loss, asked, create_graph=True, allow_unused=True)
    used = [(v, g) for v, g in zip(asked, found, strict=True) if g is not None]
    square = torch.stack([g.square().sum() for _, g in used]).sum() / 2
    products = torch.autograd.grad(
        square, [v for v, _ in used], create_graph=True, allow_unused=True
    )
    total, count = torch.zeros(()), 0
    for (_, g), product in zip(used, products, strict=True):
        count += g.numel()
        if product is not None:
            near = g + SMALL * torch.where(g.detach() < 0, -1.0, 1.0)
            total = total + ((g - product) / near - 1).abs().sum()
    return total / count


def _moved(weight: Tensor, slope: Tensor, velocity: float) -> float:
    """Change the norm of ``weight`` against the sign of its slope; its new velocity."""
    with torch.no_grad():
        norm = weight.norm()
        along = (slope * weight).sum() / norm
        velocity = MOMENTUM * velocity - RATE * float(along.sign())
        weight.mul_((norm + velocity) / norm)
    return velocity


METHODS = (
    Method(
        "MetaInit algorithm",
        f"our own code, from the paper's description: {STEPS} steps",
        metainit_from_its_paper,
        STEPS,
    ),
)
