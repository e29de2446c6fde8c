"""What is drawn of a profile: for each quantity its values by depth, as decimal logarithms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from critinit.errors import CritinitError
from critinit.profile import Profile
from critinit.theory import Prediction

Quantity = Literal["apjn", "kernel", "product", "correlation"]
QUANTITIES: tuple[Quantity, ...] = get_args(Quantity)


class PlotError(CritinitError):
    """What was given cannot be drawn."""


@dataclass(frozen=True)
class Curve:
    """A quantity by depth.

    Attributes:
        x: The block ``l`` or, for K and the correlation, the tensor ``h^l``.
        y: The values; of all but the correlation the decimal logarithm, since a product over
            many blocks is beyond what a float can hold. Zero is minus infinity there.
        low: ``y`` less one standard error; NaN where it is not known.
        high: ``y`` and one standard error.
    """

    x: list[int]
    y: list[float]
    low: list[float]
    high: list[float]


def curve(profile: Profile | Prediction, quantity: Quantity) -> Curve:
    """The values of one quantity, measured or predicted.

    ``"product"`` is ``J^{1,l+1}`` as the product of the J of the blocks ``1 … l``: the input block
    is left out, as it is everywhere.
    """
    if isinstance(profile, Prediction):
        profile = _as_profile(profile)
    if quantity == "apjn":
        return _with_errors(0, profile.apjn, profile.apjn_se)
    if quantity == "product":
        return _product(profile)
    if quantity == "kernel":
        return _bare(_log10(profile.kernel))
    if quantity == "correlation":
        return _bare(profile.correlation)
    raise PlotError(f"quantity={quantity!r} is not known. Choose from {', '.join(QUANTITIES)}.")


def _as_profile(prediction: Prediction) -> Profile:
    """With errors of zero: theory is exact about infinite width."""
    apjn, kernel, correlation = (
        torch.as_tensor(values)
        for values in (prediction.apjn, prediction.kernel, prediction.correlation)
    )
    names = [str(i) for i in range(len(prediction))]
    return Profile(
        names,
        apjn,
        torch.zeros_like(apjn),
        kernel,
        correlation,
        model="theory",
        method="theory",
        span=1,
        probes=0,
        batches=0,
        batch_size=0,
    )


def is_log(quantity: Quantity) -> bool:
    """Whether the values are logarithms."""
    return quantity != "correlation"


def _with_errors(start: int, value: Tensor, se: Tensor) -> Curve:
    low, high = (_log10((value + sign * se).clamp_min(0)).tolist() for sign in (-1, 1))
    return Curve(list(range(start, start + len(value))), _log10(value).tolist(), low, high)


def _product(profile: Profile) -> Curve:
    logs = _log10(profile.apjn[profile.is_hidden]).cumsum(0)
    relative = (profile.apjn_se / profile.apjn)[profile.is_hidden].double()
    se = relative.square().cumsum(0).sqrt() / math.log(10)
    start = len(profile) - len(logs)
    return Curve(
        list(range(start, len(profile))), logs.tolist(), (logs - se).tolist(), (logs + se).tolist()
    )


def _bare(values: Tensor) -> Curve:
    unknown = [math.nan] * len(values)
    return Curve(list(range(len(values))), values.tolist(), unknown, unknown)


def _log10(values: Tensor) -> Tensor:
    return values.double().log10()


def log10s(values: Sequence[float]) -> list[float]:
    """The decimal logarithms; minus infinity of zero.

    >>> log10s([100, 0])
    [2.0, -inf]
    """
    return torch.tensor(values, dtype=torch.float64).log10().tolist()
