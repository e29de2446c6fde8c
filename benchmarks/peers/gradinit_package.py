"""The package ``gradinit``, with the loop that its README shows."""

from __future__ import annotations

import gradinit
import torch
import torch.nn.functional as F
from torch import nn

from peers._method import Batches, Method

STEPS = 390  # one epoch of CIFAR-10 at a batch of 128, as in the paper of the algorithm


def init(model: nn.Module, batches: Batches, steps: int) -> None:
    model.train()
    with gradinit.GradInitWrapper(model) as wrapper:
        optimizer = torch.optim.Adam(model.parameters())
        for i in range(steps):
            x, y = batches[i % len(batches)]
            loss = wrapper.grad_loss(F.cross_entropy(model(x), y), 1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            wrapper.clamp_scales()


METHODS = (
    Method("gradinit package", f"the loop that its README shows, {STEPS} steps", init, STEPS),
)
