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


_MLPS = ("mlp-relu", "mlp-tanh", "mlp-gelu")
_CNNS = ("cnn-relu", "cnn-tanh", "cnn-gelu")
_PLAIN = ("autoinit", "kaiming", "orthogonal", "orthogonal-relu", "lsuv", "default")
_SCALES = ("0.5", "2", "4")
_RESCUED = tuple(name for c in _SCALES for name in (f"kaiming ×{c}, tuned", f"kaiming ×{c}"))
_LOW, _MIDDLE = (0.001, 0.003, 0.01, 0.03), (0.003, 0.01, 0.03, 0.1)

EXPERIMENTS = (
    Experiment("mlp", "50-layer MLPs", _MLPS, (*_PLAIN, "tuned kaiming"), _LOW),
    Experiment("cnn", "30-layer CNNs", _CNNS, _PLAIN, _LOW),
    Experiment("resmlp", "ResMLP", ("resmlp",), ("autoinit", "original", "kaiming"), _MIDDLE),
    Experiment("vgg", "VGG19", ("vgg19", "vgg19_bn"), ("autoinit", "original"), _MIDDLE),
    Experiment("rescue", "Weights of a wrong scale", _MLPS, _RESCUED, _LOW),
)
