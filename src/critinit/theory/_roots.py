"""Roots of functions of one variable."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np

from critinit.theory._checks import Array


def root(f: Callable[[float], float], low: float, high: float) -> float:
    """Where f changes its sign between ``low`` and ``high`` (Ridders' method)."""
    f_low, f_high = f(low), f(high)
    if f_low == 0:
        return low
    if f_high == 0:
        return high
    last = math.inf
    for _ in range(60):
        middle = (low + high) / 2
        f_middle = f(middle)
        if f_middle == 0:
            return middle
        bend = math.sqrt(f_middle**2 - f_low * f_high)
        guess = middle + (middle - low) * math.copysign(1, f_low - f_high) * f_middle / bend
        f_guess = f(guess)
        if f_guess == 0 or abs(guess - last) <= 1e-14 * (1 + abs(guess)):
            return guess
        last = guess
        points = [(low, f_low), (middle, f_middle), (guess, f_guess), (high, f_high)]
        points.sort()
        for (x, f_x), (y, f_y) in pairwise(points):
            if f_x * f_y < 0:
                low, f_low, high, f_high = x, f_x, y, f_y
                break
    return (low + high) / 2


def all_roots(f: Callable[[float], float], grid: Array) -> list[float]:
    """The roots that sign changes on a grid of positive numbers show, to full precision."""
    values = [f(float(x)) for x in grid]
    found = []
    logs = np.log(grid).tolist()
    for ends, (x, y) in zip(pairwise(logs), pairwise(values), strict=True):
        if x == 0 or x * y < 0:
            found.append(math.exp(root(lambda t: f(math.exp(t)), *ends)))
    return found
