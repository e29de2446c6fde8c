"""What the three estimators share."""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import Tensor

from critinit.chain._walk import Tensors


class Estimator(Protocol):
    """Prepares ``h^l`` before a block runs and reads off its squared derivative afterwards.

    ``walks`` is how often the model has to run. ``contributions`` returns a table of numbers whose
    mean is ``J``, a row for each probe and a column for each example.
    """

    @property
    def walks(self) -> int: ...

    def enter(self, h: Tensors) -> Tensors: ...

    def contributions(self, h: Tensors, out: Tensors, batch_size: int) -> Tensor: ...


def examples_of(tensor: Tensor, batch_size: int) -> Tensor:
    """``tensor`` as a matrix with a row for each example; one row if they cannot be told apart.

    The examples lie along the first dimension, or (sequence first) along the only other one of
    that length, or several rows in a row belong to each (windows, patches).
    """
    if tensor.ndim == 0 or batch_size == 1:
        return tensor.reshape(1, -1)
    if tensor.shape[0] == batch_size:
        return tensor.reshape(batch_size, -1)
    dimensions = [d for d, length in enumerate(tensor.shape) if length == batch_size]
    if len(dimensions) == 1:
        return tensor.movedim(dimensions[0], 0).reshape(batch_size, -1)
    if tensor.shape[0] % batch_size == 0:
        return tensor.reshape(batch_size, -1)
    return tensor.reshape(1, -1)


def squared_norms(tensors: Tensors, batch_size: int) -> Tensor:
    """The squared norm of each example, over all tensors of a boundary; in float64."""
    rows = [examples_of(t, batch_size) for t in tensors]
    if len({row.shape[0] for row in rows}) > 1:
        rows = [row.reshape(1, -1) for row in rows]
    return torch.stack([_row_norms(row) for row in rows]).square().sum(0)


def _row_norms(rows: Tensor) -> Tensor:
    """In single precision at least, and in double where squares overflow or vanish."""
    dtype = torch.promote_types(rows.dtype, torch.float32)
    norms: Tensor = torch.linalg.vector_norm(rows, dim=1, dtype=dtype).double()
    if not bool(((norms > 1e-16) & (norms < torch.inf)).all()):
        norms = torch.linalg.vector_norm(rows, dim=1, dtype=torch.float64)
    return norms


def standard_error(table: Tensor) -> Tensor:
    """Of the mean of a table of contributions: by the spread over examples, or else over probes."""
    probes, examples = table.shape
    if examples > 1:
        return table.mean(0).std() / math.sqrt(examples)
    if probes > 1:
        return table.mean(1).std() / math.sqrt(probes)
    return table.new_tensor(math.nan)


def size_of(tensors: Tensors) -> int:
    """The number of components: ``|B| N_l`` of a boundary."""
    return sum(t.numel() for t in tensors)
