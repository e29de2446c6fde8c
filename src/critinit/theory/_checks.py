"""Arguments that every prediction takes, checked in one place."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from critinit.theory.errors import DivergenceError, TheoryError

Array = NDArray[np.float64]

LARGEST = 1e75
"""K beyond which the activations themselves would overflow in single precision."""


def numbers(name: str, value: ArrayLike) -> Array:
    """``value`` as finite floats."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise TheoryError(f"{name}={value!r}: a number is needed.") from None
    if not np.isfinite(array).all():
        raise TheoryError(f"{name}={value!r}: finite numbers are needed.")
    return array


def number(name: str, value: ArrayLike) -> float:
    """``value`` as one finite float."""
    array = numbers(name, value)
    if array.ndim:
        raise TheoryError(f"{name}={value!r}: a single number is needed.")
    return float(array)


def positive(name: str, value: ArrayLike) -> Array:
    """``value`` as floats above zero."""
    array = numbers(name, value)
    if not (array > 0).all():
        raise TheoryError(f"{name}={value!r}: numbers above zero are needed.")
    return array


def non_negative(name: str, value: ArrayLike) -> Array:
    """``value`` as floats of at least zero."""
    array = numbers(name, value)
    if (array < 0).any():
        raise TheoryError(f"{name}={value!r} is negative: zero or more is needed.")
    return array


def variance(name: str, value: ArrayLike) -> Array:
    """``value`` as a variance: zero or more, and within the range of floats."""
    array = np.asarray(value, dtype=np.float64)
    if np.isnan(array).any() or (array < 0).any():
        raise TheoryError(f"{name}={value!r}: a variance is needed, zero or more.")
    if not (array < LARGEST).all():
        raise DivergenceError(
            f"{name}={float(array.max()):.3g} overflows: the signal grows beyond any bound. "
            "Take fewer layers or a smaller σ_w."
        )
    return array


def per_layer(name: str, value: ArrayLike, layers: int) -> Array:
    """``value`` for each of ``layers`` layers: a number for all, or one each."""
    array = numbers(name, value)
    if array.ndim and array.shape != (layers,):
        raise TheoryError(
            f"{name} has shape {array.shape}: give one number, or one for each of the "
            f"{layers} linear layers."
        )
    return np.broadcast_to(array, (layers,))


def count(name: str, value: int, least: int = 1) -> int:
    """A whole number of at least ``least``."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise TheoryError(f"{name}={value!r}: a whole number of at least {least} is needed.")
    return int(value)


def determinant(k1: Array, k2: Array, k12: Array) -> Array:
    """``k1 k2 − k12²``, without cancellation near perfect correlation."""
    root = np.sqrt(k1) * np.sqrt(k2)
    return np.maximum((root - k12) * (root + k12), 0.0)
