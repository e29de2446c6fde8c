"""What the two algorithms written from their papers share: the loss as a function of tensors."""

from __future__ import annotations

from collections.abc import Mapping

import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call


def cross_entropy(model: nn.Module, values: Mapping[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
    """With ``values`` in place of the parameters, and copies of the buffers."""
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    return F.cross_entropy(functional_call(model, {**buffers, **values}, (x,)), y)
