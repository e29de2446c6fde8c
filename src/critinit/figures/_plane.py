"""The plane of σ_w and σ_b: what both phase diagrams are drawn over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from critinit.figures._figure import Point, Row, Settings

_AXES = ("sigma_w", "sigma_b")


@dataclass(frozen=True)
class Plane:
    """Every ``sigma_w`` with every ``sigma_b``."""

    sigma_w: list[float]
    sigma_b: list[float]

    @classmethod
    def of(cls, settings: Settings) -> Plane:
        """From first, last and number of values of each."""
        return cls(*(np.linspace(*settings[axis]).round(6).tolist() for axis in _AXES))

    def points(self, **kind: Any) -> list[Point]:
        """Those of one kind of network."""
        return [kind | {"sigma_w": w, "sigma_b": b} for b in self.sigma_b for w in self.sigma_w]

    def apjn(self, rows: Sequence[Row]) -> list[list[float]]:
        """J of the rows of one kind, as `critinit.plot.phase` takes it; NaN where there is none."""
        found = {(row["sigma_w"], row["sigma_b"]): row["j"] for row in rows}
        return [[found.get((w, b), np.nan) for w in self.sigma_w] for b in self.sigma_b]
