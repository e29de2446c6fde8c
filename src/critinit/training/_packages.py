"""Packages that training needs."""

from __future__ import annotations

from functools import partial

from critinit._optional import optional
from critinit.training.errors import TrainingError

package = partial(optional, use="Training", extra="train", error=TrainingError)
