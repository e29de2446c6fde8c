"""The 1,797 handwritten digits inside scikit-learn: 8×8 pixels, values 0…16."""

from __future__ import annotations

import torch

from critinit.data._examples import InMemory
from critinit.data._optional import optional

TRAIN = 1500  # the rest is for testing; not shuffled, since neighbours may be of one hand


def read(split: str) -> InMemory:
    """The images as floats in [0, 1], N×1×8×8."""
    digits = optional("sklearn.datasets", "The data set digits").load_digits()
    part = slice(TRAIN) if split == "train" else slice(TRAIN, None)
    images = torch.tensor(digits.images[part], dtype=torch.float32).div_(16).unsqueeze(1)
    labels = torch.tensor(digits.target[part], dtype=torch.int64)
    return InMemory(images, labels, tuple(str(name) for name in digits.target_names))
