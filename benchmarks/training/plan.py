"""Which trainings there are to be, the most important first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trial import Trial

SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Experiment:
    """Every method on every network, at every learning rate, from every seed."""

    name: str
    title: str
    networks: tuple[str, ...]
    methods: tuple[str, ...]
    rates: tuple[float, ...]
    steps: int = 300

    def trials(self) -> Iterator[Trial]:
        for seed in SEEDS:
            for method in self.methods:
                for network in self.networks:
                    for lr in self.rates:
                        yield Trial(network, method, lr, self.steps, seed)


_PLAIN = ("kaiming", "orthogonal", "orthogonal-relu", "lsuv", "default")
_MLPS = ("mlp-relu", "mlp-tanh", "mlp-gelu")
_CNNS = ("cnn-relu", "cnn-tanh", "cnn-gelu")

EXPERIMENTS = (Experiment("mlp", "50-layer MLPs", _MLPS, _PLAIN, (0.001, 0.003, 0.01, 0.03)),)
