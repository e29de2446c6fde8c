"""An image-folder tree of generated pictures: a colour for each class, and noise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image


def write_tree(root: Path, classes: int, counts: dict[str, int], size: tuple[int, int]) -> Path:
    """So many pictures in each class of each split, height × width."""
    random = np.random.default_rng(0)
    for split, count in counts.items():
        for label in range(classes):
            folder = root / split / f"class{label}"
            folder.mkdir(parents=True)
            for index in range(count):
                pixels = random.integers(0, 120, (*size, 3), dtype=np.uint8)
                pixels[..., label % 3] += np.uint8(60 + 25 * (label // 3))
                Image.fromarray(pixels).save(folder / f"{index}.png")
    return root
