"""Run a model for the calls it makes alone, at a fraction of the cost.

Products with a weight are taken over none of their terms, and attention is paid to one key: shapes
and the autograd graph are the same, the values are wrong. Once the model asks for one of them, only
a true run can tell what it calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

_PLAIN = {Tensor, nn.Parameter}  # not quantised, distributed or otherwise special
_READS = {
    "__bool__", "__int__", "__float__", "__index__", "__complex__", "__array__", "__contains__",
    "__repr__", "__format__",
    "item", "tolist", "numpy", "is_nonzero", "equal", "allclose",
    "nonzero", "argwhere", "masked_select", "unique", "unique_consecutive",
}  # fmt: skip


class ValuesNeededError(RuntimeError):
    """The model asked for a value that a sketch does not have."""


def _no_terms(x: Tensor, weight: Tensor, *bias: Tensor) -> tuple[Tensor, ...]:
    return (x[..., :0], weight[..., :0], *bias)


def _one_key(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
    return query, key[..., :1, :], value[..., :1, :]


class Sketch:
    """Calls torch functions as ``func(*args, **kwargs)`` would, but for products."""

    def __init__(self) -> None:
        self._is_true = True

    def __call__(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if not self._is_true and getattr(func, "__name__", "") in _READS:
            raise ValuesNeededError("the model asks for a value")
        if func is F.linear and len(args) > 1 and _are_plain(args[:2]) and _match(*args[:2]):
            args, self._is_true = _no_terms(*args), False
        elif func is F.scaled_dot_product_attention and len(args) == 3 and _are_plain(args):
            if kwargs.get("attn_mask") is not None:
                kwargs = {**kwargs, "attn_mask": kwargs["attn_mask"][..., :1]}
            args, self._is_true = _one_key(*args), False
        return func(*args, **kwargs)


def _match(x: Tensor, weight: Tensor) -> bool:
    """Else torch shall say so."""
    return x.shape[-1:] == weight.shape[-1:]


def _are_plain(tensors: tuple[Any, ...]) -> bool:
    return set(map(type, tensors)) <= _PLAIN


def truly(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The other way to call them."""
    return func(*args, **kwargs)
