"""Layer-sequential unit-variance initialization (Mishkin and Matas, 2015)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from critinit._parametrized import scale_weight
from critinit._state import all_or_nothing, draw_seed, module_state, untouched
from critinit.base import reset_
from critinit.baselines._layers import drawn_layers, identity
from critinit.chain._calls import same_module
from critinit.chain._inputs import check_batch, read_batches


def lsuv_(
    model: nn.Module,
    batch: object,
    generator: torch.Generator | None = None,
    *,
    tol: float = 0.01,
    max_trials: int = 10,
) -> None:
    """Orthogonal weights, then in the order of the layers ``W ← W / std`` of what they put out.

    The first layer and the last are treated like all others. A layer's output is looked at before
    anything behind it can overwrite it, and what is handed on is that of the scaled layer, so one
    run of the model suffices. Biases are zero. A layer that is used several times is scaled at its
    first use; one that puts out zeros only stays as it was drawn.

    Args:
        model: In the mode it will be used in.
        batch: As for `critinit.measure`; of several the first.
        generator: The only source of randomness; by default a fresh one with seed 0.
        tol: How near to one the variance shall come.
        max_trials: How often a layer may be scaled to get there.

    >>> from critinit.models import mlp
    >>> model, x = mlp(32, 3, inputs=8), torch.randn(64, 8)
    >>> lsuv_(model, x)
    >>> abs(float(model(x).detach().std()) - 1) < 0.01
    True
    """
    module = same_module(model)
    generator = generator or torch.Generator().manual_seed(0)
    first = next(read_batches(module, batch))
    check_batch(module, first)
    layers = drawn_layers(module)
    with all_or_nothing(module):
        reset_(module, "orthogonal", bias_std=0, generator=generator)
        with untouched(module, draw_seed(generator)), torch.no_grad(), module_state(module):
            normalizer = _Normalizer(tol, max_trials)
            for layer in layers:
                layer.register_forward_hook(normalizer, with_kwargs=True)
            module(*first.args, **first.kwargs)


class _Normalizer:
    """A hook on every layer that scales its weight when it is first called."""

    def __init__(self, tol: float, max_trials: int) -> None:
        self.tol = tol
        self.max_trials = max_trials
        self.done: set[int] = set()

    def __call__(
        self, layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], out: Tensor
    ) -> Tensor:
        if identity(layer) in self.done:
            return out
        self.done.add(identity(layer))
        for _ in range(self.max_trials):
            variance = float(out.float().var())
            if not 0 < variance < torch.inf or abs(variance - 1) <= self.tol:
                break
            scale_weight(layer, variance**-0.5)
            out = layer.forward(*args, **kwargs)
        return out
