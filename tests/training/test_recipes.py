"""Recipes say what the paper says, and what may be set of them."""

from __future__ import annotations

import pytest

from critinit import training
from critinit.training import Recipe, TrainingError, find


def test_the_papers_numbers() -> None:
    resmlp, vgg, imagenet = map(
        find, ("resmlp-s12-cifar10", "vgg19_bn-cifar10", "resmlp-s12-imagenet")
    )
    assert (resmlp.epochs, resmlp.batch, resmlp.drops, resmlp.drop) == (600, 256, (450, 550), 0.1)
    assert (resmlp.optimizer, resmlp.mixup, resmlp.repeats) == ("lamb", 0.8, 3)
    assert (resmlp.lrs, resmlp.weight_decays) == ((0.005, 0.01), (1e-5, 1e-4))
    tuning = resmlp.tuning
    assert (tuning.eta, tuning.probes, tuning.steps, tuning.batch) == (0.03, 2, 392, 256)
    assert (vgg.epochs, vgg.batch, vgg.drops, vgg.momentum) == (300, 256, (150, 225), 0.9)
    assert vgg.lrs == (0.001, 0.002, 0.005, 0.01, 0.02)
    assert vgg.weight_decays == (0.0005, 0.001, 0.002, 0.005)
    tuning = vgg.tuning
    assert (tuning.lam, tuning.eta, tuning.probes, tuning.batch) == (0.05, 0.01, 3, 128)
    assert (tuning.steps, tuning.keep, tuning.scale) == (392, "frozen", "batchnorm")
    assert (imagenet.epochs, imagenet.lr, imagenet.batch) == (400, 0.001, 1024)
    tuning = imagenet.tuning
    assert (tuning.lam, tuning.eta, tuning.batch, tuning.steps) == (0.5, 0.03, 32, 500)
    assert imagenet.precision == "fp16"


@pytest.mark.parametrize("name", training.names())
def test_short_versions_differ_only_where_they_say_so(name: str) -> None:
    recipe = find(name)
    assert recipe.lr in (recipe.lrs or (recipe.lr,))
    assert recipe.weight_decay in (recipe.weight_decays or (recipe.weight_decay,))
    if not name.endswith("-cpu"):
        return
    full, short = find(name.removesuffix("-cpu")).to_dict(), recipe.to_dict()
    same = ("optimizer", "lr", "weight_decay", "momentum", "mixup", "cutmix", "repeats", "flip")
    assert all(full[key] == short[key] for key in (*same, "randaugment", "schedule", "drop"))
    for key in ("epochs", "examples", "batch"):
        if full[key] != short[key]:
            assert f"{short[key]:,}" in recipe.about, key
    for key in ("steps", "batch"):
        if full["tuning"][key] != short["tuning"][key]:
            assert str(short["tuning"][key]) in recipe.about, key


def test_settings_are_typed() -> None:
    changed = find("vgg19_bn-cifar10").with_settings(
        {
            "lr": "1e-3",
            "epochs": "7",
            "crop": "true",
            "drops": "3,5",
            "tuning.lam": "0.5",
            "tuning.keep": "fold",
            "data": "folder:there",
        }
    )
    assert (changed.lr, changed.epochs, changed.crop, changed.drops) == (1e-3, 7, True, (3, 5))
    assert (changed.tuning.lam, changed.tuning.keep) == (0.5, "fold")
    assert changed.data == "folder:there"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"learning_rate": "1"}, "no 'learning_rate' to set"),
        ({"lrr": "1"}, "Did you mean 'lr'"),
        ({"tuning.step": "1"}, r"Did you mean 'tuning\.steps'"),
        ({"about": "x"}, "no 'about' to set"),
        ({"lr": "fast"}, "lr=fast: give a number"),
        ({"lr": "nan"}, "lr=nan: give a finite number"),
        ({"lr": "-1"}, "finite number from 0 up"),
        ({"epochs": "1.5"}, "epochs=1.5: give a whole number"),
        ({"epochs": "0"}, "epochs=0: give a whole number from 1 up"),
        ({"crop": "maybe"}, "true or false"),
        ({"schedule": "poly"}, "step or cosine"),
        ({"drops": "1,x"}, "a whole number, or several with commas"),
        ({"batch": "33"}, "even number"),
    ],
)
def test_what_cannot_be_set(settings: dict[str, str], words: str) -> None:
    with pytest.raises(TrainingError, match=words):
        find("resmlp-s12-cifar10").with_settings(settings)


def test_the_grid() -> None:
    points = list(find("vgg19_bn-cifar10").grid())
    assert len(points) == 20
    assert {(p.lr, p.weight_decay) for p in points} == {
        (lr, decay) for lr in points[0].lrs for decay in points[0].weight_decays
    }
    single = list(find("resmlp-s12-imagenet").grid())
    assert single == [find("resmlp-s12-imagenet")]


def test_a_misspelt_recipe() -> None:
    with pytest.raises(TrainingError, match="Did you mean 'resmlp-s12-cifar10'"):
        find("resmlp-s12-cifar")


def test_recipes_are_values() -> None:
    assert find("resmlp-s12-cifar10") == find("resmlp-s12-cifar10").with_settings({})
    assert isinstance(find("resmlp-s12-cifar10"), Recipe)
