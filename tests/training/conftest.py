"""A tiny data set and recipe, so that a whole training takes a second."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from picture_tree import write_tree

from critinit.training import Recipe, find


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four classes of twelve pictures, and three of each to test on."""
    root = tmp_path_factory.mktemp("pictures")
    return write_tree(root, 4, {"train": 12, "val": 3}, (40, 36))


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
