"""The package ``lsuv``, called as its README shows."""

from __future__ import annotations

import lsuv
from torch import nn

from peers._method import Batches, Method


def init(model: nn.Module, batches: Batches, _: int) -> None:
    lsuv.lsuv_with_singlebatch(model, batches[0][0], verbose=False)


METHODS = (Method("lsuv package", "`lsuv.lsuv_with_singlebatch(model, x)`", init, aim="variance"),)
