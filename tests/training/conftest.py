"""A tiny data set and recipe, so that a whole training takes a second."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from critinit.training import Recipe, find

CLASSES, PER_CLASS = 4, 12


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image-folder tree of generated pictures: a colour for each class, and noise."""
    root = tmp_path_factory.mktemp("pictures")
    random = np.random.default_rng(0)
    for split, count in (("train", PER_CLASS), ("val", 3)):
        for label in range(CLASSES):
            folder = root / split / f"class{label}"
            folder.mkdir(parents=True)
            for index in range(count):
                pixels = random.integers(0, 120, (40, 36, 3), dtype=np.uint8)
                pixels[..., label % 3] += 60 + 25 * (label == 3)
                Image.fromarray(pixels).save(folder / f"{index}.png")
    return root


@pytest.fixture
def recipe(pictures: Path) -> Recipe:
    """ResMLP with all that the full recipe has, in miniature."""
    small = find("resmlp-s12-cifar10-cpu")
    return replace(
        small,
        name="miniature",
        data=f"folder:{pictures}",
        image=16,
        options={"width": 8, "depth": 2, "patch": 8, "layerscale": 0.1},
        tuning=replace(small.tuning, steps=4, batch=8, probes=1),
        epochs=3,
        drops=(2,),
        batch=8,
        examples=0,
        lrs=(0.01, 0.02),
        weight_decays=(1e-4,),
    )
