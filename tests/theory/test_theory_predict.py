"""`theory.predict` reads a network and says what `critinit.measure` finds in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from theory_networks import inputs
from torch import Tensor, nn

import critinit
from critinit import models, theory

WIDTH, BATCH = 512, 16


def perceptron(*layers: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), *layers)


def linear() -> nn.Linear:
    return nn.Linear(WIDTH, WIDTH)


def vectors() -> Tensor:
    return inputs(BATCH, WIDTH, correlation=0.3)


def patches_of_noise() -> Tensor:
    return torch.randn(BATCH, 3, 32, 32)


wide = {"inputs": WIDTH, "outputs": WIDTH}
CASES: dict[str, tuple[Callable[[], nn.Module], Callable[[], Tensor]]] = {
    "mlp, torch's default": (lambda: models.mlp(WIDTH, 3, **wide), vectors),
    "mlp gelu": (
        lambda: models.mlp(WIDTH, 3, activation="gelu", sigma_w=1.5, sigma_b=0.4, **wide),
        vectors,
    ),
    "mlp tanh": (
        lambda: models.mlp(WIDTH, 3, activation="tanh", sigma_w=1.2, sigma_b=0.2, **wide),
        vectors,
    ),
    "bn_mlp μ=0": (
        lambda: models.bn_mlp(WIDTH, 4, mu=0.0, sigma_w=1.5, sigma_b=0.3, **wide),
        vectors,
    ),
    "bn_mlp μ=1": (
        lambda: models.bn_mlp(WIDTH, 4, sigma_w=1.5, activation="tanh", **wide),
        vectors,
    ),
    "bn_mlp, a single layer": (lambda: models.bn_mlp(WIDTH, 1, sigma_w=1.5, **wide), vectors),
    "ln_mlp": (lambda: models.ln_mlp(WIDTH, 4, mu=0.7, sigma_w=1.1, **wide), vectors),
    "resmlp": (
        lambda: models.resmlp(64, 2, image=32, patch=2, outputs=64, layerscale=0.5, sigma_w=1.2),
        patches_of_noise,
    ),
    "post-norm": (
        lambda: perceptron(nn.LayerNorm(WIDTH), nn.ReLU(), linear(), nn.BatchNorm1d(WIDTH)),
        vectors,
    ),
    "BatchNorm before and behind": (
        lambda: perceptron(
            nn.BatchNorm1d(WIDTH), nn.GELU(), nn.Dropout(0.0), linear(), nn.SiLU(), linear()
        ),
        vectors,
    ),
    "nested, RMSNorm": (
        lambda: nn.Sequential(perceptron(nn.Tanh()), nn.Sequential(nn.RMSNorm(WIDTH), linear())),
        vectors,
    ),
    "layers that stand there twice": (lambda: repeated(nn.ReLU(), linear()), vectors),
    "scaled γ": (
        lambda: scaled(perceptron(nn.BatchNorm1d(WIDTH), nn.Tanh(), linear(), nn.LayerNorm(WIDTH))),
        vectors,
    ),
}


def repeated(activation: nn.Module, layer: nn.Module) -> nn.Module:
    return perceptron(activation, layer, activation, linear())


def scaled(model: nn.Module) -> nn.Module:
    for m in model.modules():
        if isinstance(m, nn.BatchNorm1d | nn.LayerNorm):
            nn.init.constant_(m.weight, 1.7)
    return model


def predicted_for(model: nn.Module, profile: critinit.Profile) -> theory.Prediction:
    kernel, correlation = float(profile.kernel[0]), float(profile.correlation[0])
    return theory.predict(
        model, kernel=kernel, correlation=correlation, batch_size=profile.batch_size
    )


@pytest.mark.parametrize("case", CASES)
def test_prediction_and_measurement_agree(case: str) -> None:
    """Within 4 standard errors over the draws and 1/N for each layer (N = 256 patches at least)."""
    torch.manual_seed(0)
    make, data = CASES[case]
    x = data()
    differences: dict[str, list[np.ndarray]] = {"J": [], "K": [], "correlation": []}
    for seed in range(24):
        model = make()
        profile = critinit.measure(model, x, generator=torch.Generator().manual_seed(seed))
        predicted = predicted_for(model, profile)
        assert len(predicted) == len(profile)
        assert predicted.kernel.shape == tuple(profile.kernel.shape)
        differences["J"].append(predicted.log_apjn - profile.log_apjn.numpy())
        differences["K"].append(np.log(predicted.kernel) - profile.kernel.log().numpy())
        differences["correlation"].append(predicted.correlation - profile.correlation.numpy())
    for quantity, rows in differences.items():
        mean, error = np.mean(rows, 0), np.std(rows, 0, ddof=1) / len(rows) ** 0.5
        allowed = 4 * error + 2 / 256 * np.arange(1, len(mean) + 1)
        assert (np.abs(mean) <= allowed).all(), f"{quantity}: {mean / allowed} of what is allowed"
        assert allowed.mean() <= 0.1, f"{quantity}: too few draws"


def test_the_blocks_are_those_of_trace() -> None:
    for make, data in CASES.values():
        model = make()
        assert len(theory.predict(model, batch_size=BATCH)) == len(critinit.trace(model, data()))


def test_a_tuned_network_is_predicted_critical() -> None:
    torch.manual_seed(0)
    model, x = models.mlp(WIDTH, 6, sigma_w=2.5, sigma_b=0.1, activation="tanh", **wide), vectors()
    before = theory.predict(model)
    result = critinit.tune_(model, x, loss=critinit.JLL())
    after = predicted_for(model, result.after)
    assert np.abs(before.log_apjn[1:]).max() > 0.3
    assert np.abs(after.log_apjn[1:]).max() < 0.1


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()), r"0 is a Conv2d"),
        (models.vgg11(), r"the model is a VGG"),
        (perceptron(nn.Dropout(0.5)), r"1 is a Dropout"),
        (perceptron(nn.PReLU()), r"1 is a PReLU"),
        (nn.Sequential(nn.ReLU()), r"the model is a Sequential"),
        (perceptron(nn.BatchNorm1d(WIDTH)).eval(), r"1 is BatchNorm in evaluation mode"),
        (perceptron(nn.ReLU(), nn.Tanh(), linear()), "acts on the output of another"),
        (perceptron(nn.ReLU(), nn.LayerNorm(WIDTH), nn.Tanh()), "acts on the output of another"),
        ("mlp", "model is a str"),
    ],
    ids=["convolution", "vgg", "dropout", "prelu", "no weights", "eval", "two", "norm", "text"],
)
def test_what_is_not_recognised_is_named(model: Any, message: str) -> None:
    with pytest.raises(theory.TheoryError, match=message):
        theory.predict(model)


def test_norms_with_values_of_their_own_are_refused() -> None:
    model = perceptron(nn.LayerNorm(WIDTH))
    nn.init.normal_(model[1].weight)
    with pytest.raises(theory.TheoryError, match=r"1 has different values"):
        theory.predict(model)
