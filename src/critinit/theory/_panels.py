"""Gauss–Legendre quadrature on panels, and polynomials through the nodes of a panel."""

from __future__ import annotations

import numpy as np
from numpy.polynomial import legendre

from critinit.theory._checks import Array

NODES = 20
POINTS, WEIGHTS = legendre.leggauss(NODES)
BETWEEN = (POINTS[1:] + POINTS[:-1]) / 2
"""Where a polynomial through the nodes is compared with the function."""

_ORDERS = np.arange(NODES)
TO_SERIES = (_ORDERS + 0.5)[:, None] * legendre.legvander(POINTS, NODES - 1).T * WEIGHTS
"""Takes values at the nodes to the coefficients of a Legendre series."""
INTERPOLATE = legendre.legvander(BETWEEN, NODES - 1) @ TO_SERIES
"""Takes values at the nodes to those of the polynomial at `BETWEEN`."""


def place(lower: Array, upper: Array, points: Array) -> Array:
    """``points`` of [−1, 1] on every panel, along a new last axis."""
    middle, half = (upper + lower) / 2, (upper - lower) / 2
    return middle[..., None] + half[..., None] * points


def composite(edges: Array) -> tuple[Array, Array]:
    """Nodes and weights on the panels between consecutive ``edges`` (last axis), flattened."""
    lower, upper = edges[..., :-1], edges[..., 1:]
    nodes = place(lower, upper, POINTS)
    weights = (upper - lower)[..., None] / 2 * WEIGHTS
    flat = (*edges.shape[:-1], -1)
    return nodes.reshape(flat), weights.reshape(flat)


def series_value(series: Array, t: Array) -> Array:
    """A Legendre series of its own for each point: ``Σ_k series[k, i] P_k(t[i])``."""
    before, now = np.ones_like(t), t
    total = series[0] + (series[1] * t if len(series) > 1 else 0.0)
    for k in range(2, len(series)):
        before, now = now, ((2 * k - 1) * t * now - (k - 1) * before) / k
        total = total + series[k] * now
    return np.asarray(total)
