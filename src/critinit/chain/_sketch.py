"""Run a model for the calls it makes alone, at a fraction of the cost.

A product with a weight is taken over none of its terms: shapes and the autograd graph are the same,
the values are wrong. Once the model asks for one of them, only a true run can tell what it calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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


class Sketch:
    """Calls torch functions as ``func(*args, **kwargs)`` would, but for products."""

    def __init__(self) -> None:
        self._is_true = True

    def __call__(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if not self._is_true and getattr(func, "__name__", "") in _READS:
            raise ValuesNeededError("the model asks for a value")
        if func is nn.functional.linear and len(args) > 1 and set(map(type, args[:2])) <= _PLAIN:
            self._is_true = False
            x, weight, *bias = args
            args = (x[..., :0], weight[..., :0], *bias)
        return func(*args, **kwargs)


def truly(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The other way to call them."""
    return func(*args, **kwargs)
