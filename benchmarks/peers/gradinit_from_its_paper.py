"""GradInit, written from what its paper says; for the benchmarks only.

Zhu et al., "GradInit: Learning to Initialize Neural Networks for Stable and Efficient Training"
(2021): one scalar for each parameter tensor, learned so that the loss after one step of the
optimizer is small, while the norm of the gradient stays below a bound. This is the variant for SGD.
Scales, the second batch (half of it new) and the constraint are as described there; the rate is
one of those it was tuned over.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from peers._method import Batches, Method
from peers._task import cross_entropy

STEPS = 390
RATE = 0.01  # of Adam on the scales
STEP = 0.1  # η, of the SGD step that is looked ahead
BOUND = 1.0  # γ, on the norm of the gradient
SMALLEST = 0.01  # of a scale


def gradinit_from_its_paper(model: nn.Module, batches: Batches, steps: int) -> None:
    weights = {n: p.detach() for n, p in model.named_parameters() if p.requires_grad}
    scales = {n: torch.ones((), dtype=p.dtype, requires_grad=True) for n, p in weights.items()}
    adam = torch.optim.Adam(scales.values(), lr=RATE)
    with sdpa_kernel(SDPBackend.MATH):  # the other kernels have no second derivative
        for i in range(steps):
            adam.zero_grad()
            objective(model, weights, scales, batches, i).backward()
            adam.step()
            with torch.no_grad():
                for scale in scales.values():
                    scale.clamp_(min=SMALLEST)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name in scales:
                parameter.mul_(scales[name])


def objective(
    model: nn.Module,
    weights: dict[str, Tensor],
    scales: dict[str, Tensor],
    batches: Batches,
    i: int,
) -> Tensor:
    """The norm of the gradient where it is above the bound, else the loss one step ahead."""
    x, y = batches[i % len(batches)]
    scaled = {name: scales[name] * weight for name, weight in weights.items()}
    loss = cross_entropy(model, scaled, x, y)
    names = list(scaled)
    found = torch.autograd.grad(
        loss, [scaled[n] for n in names], create_graph=True, allow_unused=True
    )
    gradients = {n: g for n, g in zip(names, found, strict=True) if g is not None}
    norm = torch.stack([g.square().sum() for g in gradients.values()]).sum().sqrt()
    if norm > BOUND:
        return norm
    ahead = {n: p - STEP * gradients[n] if n in gradients else p for n, p in scaled.items()}
    other, labels = batches[(i + 1) % len(batches)]
    half = len(x) // 2
    return cross_entropy(
        model, ahead, torch.cat([x[half:], other[:half]]), torch.cat([y[half:], labels[:half]])
    )


METHODS = (
    Method(
        "GradInit algorithm",
        f"our own code, from the paper's description: {STEPS} steps, for SGD",
        gradinit_from_its_paper,
        STEPS,
    ),
)
