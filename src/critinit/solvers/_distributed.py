"""Means over the processes of a data-parallel run; the identity where there is one process."""

from __future__ import annotations

import torch.distributed as dist
from torch import Tensor


def mean(tensor: Tensor) -> Tensor:
    """The mean of ``tensor`` over all processes, the same bits on each."""
    if not (dist.is_available() and dist.is_initialized()):
        return tensor
    total = tensor.clone()
    dist.all_reduce(total)
    return total / dist.get_world_size()


def standard_error(error: Tensor) -> Tensor:
    """That of such a mean, from the error on each process: the same decisions follow on each."""
    if not (dist.is_available() and dist.is_initialized()):
        return error
    return (mean(error.square()) / dist.get_world_size()).sqrt()
