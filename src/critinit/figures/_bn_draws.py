"""J of Pre-BN networks, averaged over draws: what both figures of bn_relu are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from critinit import theory
from critinit._state import random_state
from critinit.figures._draws import generator_of, images, seed_of
from critinit.figures._figure import Point, Row, Settings
from critinit.figures._together import measure_together
from critinit.models import bn_mlp

MUS = (0.0, 1.0)  # without skip connections, and with
_POOL = 4096  # examples to take batches from


def average_over_draws(
    settings: Settings, points: Sequence[Point], device: torch.device
) -> list[Row]:
    """J of the first and the deepest residual block at each point, with its standard error.

    A point has ``mu``, ``sigma_w``, ``sigma_b`` and ``batch``, all points of one call the same
    ``batch``. Each draw has its own weights and its own batch of examples.
    """
    draws = range(settings["draws"])
    keys = [point | {"draw": draw} for point in points for draw in draws]
    generators = [generator_of("probes", key, settings["seed"]) for key in keys]
    batches = torch.stack([_batch(settings, key) for key in keys])
    networks = [_network(settings, key, batches.shape[2]).to(device) for key in keys]
    j = measure_together(networks, batches.to(device), generators).apjn.numpy()
    by_point = j.reshape(len(points), len(draws), -1)
    return [_row(own[:, 1], own[:, -2]) for own in by_point]


def predicted(settings: Settings, mu: float, batch_size: int | None) -> NDArray[np.float64]:
    """J of all residual blocks at infinite width, for any σ_w and σ_b and inputs at right angles.

    How alike the inputs are matters to the first few blocks only.
    """
    prediction = theory.bn_mlp(settings["depth"], sigma_w=1.0, mu=mu, batch_size=batch_size)
    return prediction.apjn[1:-1]


def _network(settings: Settings, key: Mapping[str, Any], inputs: int) -> nn.Sequential:
    with random_state(seed_of("weights", key, settings["seed"])):
        return bn_mlp(
            settings["width"],
            settings["depth"],
            mu=key["mu"],
            inputs=inputs,
            sigma_w=key["sigma_w"],
            sigma_b=key["sigma_b"],
        )


def _batch(settings: Settings, key: Mapping[str, Any]) -> Tensor:
    order = torch.randperm(_POOL, generator=generator_of("batch", key, settings["seed"]))
    pool = images(settings["data"], _POOL, settings["seed"]).flatten(1)
    return pool[order[: key["batch"]]]


def _row(first: NDArray[np.float64], deepest: NDArray[np.float64]) -> Row:
    error = deepest.std(ddof=1) / np.sqrt(len(deepest)) if len(deepest) > 1 else np.nan
    return {"j": float(deepest.mean()), "j_se": float(error), "j_first": float(first.mean())}
