"""What theory says about a network, in the shape of what a measurement finds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from critinit.theory._checks import Array


@dataclass(frozen=True, eq=False)
class Prediction:
    """J and K of every block at infinite width: the counterpart of a measured ``Profile``.

    Attributes:
        apjn: ``J^{l,l+1}``, one for each block.
        kernel: ``K^l(x, x)``; one more than there are blocks.
        correlation: ``K^l(x, x') / K^l(x, x)`` of two different examples.
    """

    apjn: Array
    kernel: Array
    correlation: Array

    def __len__(self) -> int:
        return len(self.apjn)

    def __str__(self) -> str:
        head = f"{'l':>4}{'J':>12}{'log J':>10}{'K':>12}{'corr':>8}"
        start = f"{'':>4}{'(input)':>12}{'':>10}{self.kernel[0]:>12.4g}{self.correlation[0]:>8.3f}"
        rows = zip(self.apjn, self.log_apjn, self.kernel[1:], self.correlation[1:], strict=True)
        body = [
            f"{index:>4}{j:>12.4g}{log:>10.3f}{k:>12.4g}{c:>8.3f}"
            for index, (j, log, k, c) in enumerate(rows)
        ]
        return "\n".join([head, start, *body])

    @property
    def log_apjn(self) -> Array:
        """``log J``."""
        with np.errstate(divide="ignore"):
            return np.log(self.apjn)

    @property
    def kernel_ratio(self) -> Array:
        """``K^{l+1} / K^l``."""
        return self.kernel[1:] / self.kernel[:-1]

    @property
    def total(self) -> float:
        """``J^{0,L+1}``, the product of all J (eq. factor)."""
        return float(np.prod(self.apjn))
