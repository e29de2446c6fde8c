"""Networks that are measured at once are measured as one by one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import nn

import critinit
from critinit._state import draw_seed
from critinit.figures import find
from critinit.figures._bn_draws import predicted
from critinit.figures._together import measure_together
from critinit.models import bn_mlp, ln_mlp, mlp

MAKERS = {
    "relu": partial(mlp, 24, 4, inputs=9, sigma_w=1.3, sigma_b=0.2),
    "gelu": partial(mlp, 24, 3, inputs=9, activation="gelu", sigma_w=2.0, sigma_b=0.3),
    "batchnorm": partial(bn_mlp, 24, 4, inputs=9, mu=0.7, sigma_w=1.3, sigma_b=0.2),
    "layernorm": partial(ln_mlp, 24, 3, inputs=9, sigma_w=1.3),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
def test_same_as_one_by_one(make: Callable[[], nn.Sequential]) -> None:
    torch.manual_seed(0)
    networks, x = [make() for _ in range(3)], torch.randn(3, 16, 9)
    one_by_one = [
        critinit.measure(network, batch, generator=torch.Generator().manual_seed(i))
        for i, (network, batch) in enumerate(zip(networks, x, strict=True))
    ]
    generators = [torch.Generator().manual_seed(i) for i in range(3)]
    for generator in generators:
        draw_seed(generator)  # as `measure` does first
    found = measure_together(networks, x, generators)
    for i, profile in enumerate(one_by_one):
        torch.testing.assert_close(found.apjn[i], profile.apjn, rtol=2e-5, atol=0)
        torch.testing.assert_close(found.kernel[i], profile.kernel, rtol=2e-5, atol=0)


@pytest.mark.parametrize("name", ["bn-phase", "activation-phases"])
def test_points_at_once_are_the_points_one_by_one(name: str) -> None:
    """So that a GPU, which takes a hundred networks at once, finds the same."""
    figure, cpu = find(name), torch.device("cpu")
    settings = figure.settings["smoke"]
    groups = figure.together(settings, figure.points(settings), torch.device("cuda"))
    assert max(map(len, groups)) > 2
    for group in groups:
        at_once = list(figure.compute(settings, group, cpu))
        for point, row in zip(group, at_once, strict=True):
            (alone,) = figure.compute(settings, [point], cpu)
            assert alone == pytest.approx(row, rel=1e-4)


@pytest.mark.parametrize("mu", [0.0, 0.6, 1.0])
def test_j_of_batchnorm_networks_depends_on_neither_sigma(mu: float) -> None:
    """With the same draw, for ε ≪ σ_w²: what makes the planes of bn-phase flat."""
    x = torch.randn(32, 9)
    profiles = []
    for sigma_w, sigma_b in ((1.0, 0.0), (0.3, 2.0), (4.0, 0.5)):
        torch.manual_seed(0)
        model = bn_mlp(24, 5, inputs=9, mu=mu, sigma_w=sigma_w, sigma_b=sigma_b).double()
        for layer in model.modules():
            if isinstance(layer, nn.BatchNorm1d):
                layer.eps = 1e-12
        profiles.append(critinit.measure(model, x.double()).apjn[1:-1])
    torch.testing.assert_close(profiles[1], profiles[0], rtol=1e-6, atol=0)
    torch.testing.assert_close(profiles[2], profiles[0], rtol=1e-6, atol=0)


def test_prediction_is_that_of_the_networks() -> None:
    """J over many draws, within its standard error."""
    figure = find("bn-phase")
    settings = figure.settled("smoke", {"draws": 60, "width": 128})
    point = {"mu": 1.0, "sigma_w": 1.0, "sigma_b": 0.5}
    (row,) = figure.compute(settings, [point], torch.device("cpu"))
    first, *_, deepest = predicted(settings, 1.0, settings["batch"])
    assert row["j"] == pytest.approx(deepest, abs=4 * row["j_se"])
    assert row["j_se"] < 0.02 * deepest
    assert row["j_first"] == pytest.approx(first, rel=0.02)
