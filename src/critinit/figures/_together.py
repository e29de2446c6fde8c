"""J and K of many perceptrons of one shape at once: the same numbers as `critinit.measure`, sooner.

The networks' parameters are stacked, and each block runs for all of them as one operation (vmap).
On a GPU that fills it; on a CPU it saves what tracing and walking each network costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state

from critinit.apjn import Probes
from critinit.models import PreNormBlock

_LAST = nn.Linear, PreNormBlock  # a block of `models.mlp` and `models.bn_mlp` ends in one of these


@dataclass(frozen=True)
class Measured:
    """``apjn`` is networks × blocks, ``kernel`` networks × (blocks + 1)."""

    apjn: Tensor
    kernel: Tensor


def measure_together(
    networks: Sequence[nn.Sequential], x: Tensor, generators: Sequence[torch.Generator]
) -> Measured:
    """Measure each network with one probe of random signs a block, from its own generator.

    Args:
        networks: From `critinit.models.mlp` or `critinit.models.bn_mlp`, all of one shape, in
            training mode. BatchNorm forgets its running statistics.
        x: The batch, or one for each network, networks × examples × inputs.
        generators: One for each network.
    """
    probes = [Probes(1, generator) for generator in generators]
    h = x if x.ndim == 3 else x.expand(len(networks), *x.shape)
    apjn, kernel = [], [_mean_squares(h)]
    for blocks in zip(*map(_blocks, networks), strict=True):
        h = h.detach().requires_grad_()
        out = _run(blocks, h)
        v = torch.stack([probe.like((row,))[0] for probe, row in zip(probes, out, strict=True)])
        (pulled,) = torch.autograd.grad(out, h, v)
        apjn.append(_mean_squares(pulled) * (pulled[0].numel() / out[0].numel()))
        kernel.append(_mean_squares(out))
        h = out
    return Measured(torch.stack(apjn, dim=1), torch.stack(kernel, dim=1))


def _run(blocks: Sequence[nn.Module], h: Tensor) -> Tensor:
    """The same block of every network: networks × examples × units."""
    parameters, buffers = stack_module_state(list(blocks))
    parameters = {name: p.detach() for name, p in parameters.items()}

    def one(parameters: dict[str, Tensor], buffers: dict[str, Tensor], h: Tensor) -> Any:
        return functional_call(blocks[0], (parameters, buffers), (h,))

    out: Tensor = torch.vmap(one)(parameters, buffers, h)
    return out


def _blocks(network: nn.Sequential) -> list[nn.Module]:
    torch.func.replace_all_batch_norm_modules_(network)
    layers = [
        layer
        for child in network
        for layer in (child if isinstance(child, nn.Sequential) else [child])
    ]
    blocks: list[nn.Module] = []
    block: list[nn.Module] = []
    for layer in layers:
        block.append(layer)
        if isinstance(layer, _LAST):
            blocks.append(nn.Sequential(*block))
            block = []
    return blocks


def _mean_squares(tensors: Tensor) -> Tensor:
    """Of each network; in double precision."""
    return tensors.detach().double().square().flatten(1).mean(1).cpu()
