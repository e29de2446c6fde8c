"""What an initialization has no business to change: modes, buffers, ties, parametrizations.

What a parametrization keeps of its weight in buffers, as spectral_norm does, follows the weight.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Kept:
    """What of a model shall be the same afterwards."""

    modes: dict[str, bool]
    buffers: dict[str, Tensor]
    ties: set[frozenset[str]]
    parameters: dict[str, tuple[torch.Size, torch.dtype, bool]]
    classes: dict[str, str]
    hooks: int
    frozen: dict[str, Tensor]

    @classmethod
    def of(cls, model: nn.Module) -> Kept:
        owners = defaultdict(set)
        named = dict(model.named_parameters(remove_duplicate=False))
        for name, p in named.items():
            owners[id(p)].add(name)
        return cls(
            {name: m.training for name, m in model.named_modules()},
            {n: b.clone() for n, b in model.named_buffers() if "parametrizations" not in n},
            {frozenset(names) for names in owners.values() if len(names) > 1},
            {name: (p.shape, p.dtype, p.requires_grad) for name, p in named.items()},
            {name: type(m).__name__ for name, m in model.named_modules()},
            sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()),
            {n: p.detach().clone() for n, p in named.items() if not p.requires_grad},
        )

    def changed(self, model: nn.Module) -> list[str]:
        """The kinds of things that are other than they were."""
        now = Kept.of(model)
        found = {
            "mode": now.modes != self.modes,
            "buffers": not same_values(now.buffers, self.buffers),
            "tied weights": now.ties != self.ties,
            "parameters' names or kinds": now.parameters != self.parameters,
            "parametrizations": now.classes != self.classes,
            "hooks": now.hooks != self.hooks,
            "frozen weights": not same_values(now.frozen, self.frozen),
        }
        return [what for what, is_so in found.items() if is_so]


def same_values(found: dict[str, Tensor], before: dict[str, Tensor]) -> bool:
    return found.keys() == before.keys() and all(
        torch.equal(found[name], value) for name, value in before.items()
    )
