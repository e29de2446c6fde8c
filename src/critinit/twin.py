"""The twin network: every parameter θ times a scalar multiplier a_θ (eq. twin_preact)."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from critinit._state import standing_for
from critinit.errors import CritinitError

Scale = (
    str
    | Sequence[str]
    | type[nn.Module]
    | tuple[type[nn.Module], ...]
    | Callable[[str, Tensor], bool]
    | None
)


class ScaleError(CritinitError):
    """The choice of parameters to scale is empty or names what is not there."""


def choose_parameters(model: nn.Module, scale: Scale) -> dict[str, nn.Parameter]:
    """The parameters that get a multiplier, by name; a tied one is named once.

    ``scale`` is None for all, a name or pattern (``"*.bias"``), several of these, a module type or
    tuple of types (their own parameters), or a function of name and parameter.
    """
    named = {n: p for n, p in model.named_parameters() if p.is_floating_point()}
    chosen = _chosen(model, named, scale)
    if not chosen:
        raise ScaleError(f"scale={scale!r} selects none of the {len(named)} parameters.")
    return chosen


def _chosen(
    model: nn.Module, named: dict[str, nn.Parameter], scale: Scale
) -> dict[str, nn.Parameter]:
    if scale is None:
        return named
    kinds = (scale,) if isinstance(scale, type) else scale
    if isinstance(kinds, tuple) and all(isinstance(kind, type) for kind in kinds):
        owned = {id(p) for m in model.modules() if isinstance(m, kinds) for p in _own(m)}
        return {n: p for n, p in named.items() if id(p) in owned}
    patterns = [scale] if isinstance(scale, str) else scale
    if isinstance(patterns, Sequence):
        for pattern in patterns:
            if not any(_matches(n, str(pattern)) for n in named):
                raise ScaleError(
                    f"scale: no parameter is called or matches {pattern!r}. "
                    f"There are {', '.join(list(named)[:6])}, …"
                )
        return {n: p for n, p in named.items() if any(_matches(n, str(q)) for q in patterns)}
    if callable(scale):
        return {n: p for n, p in named.items() if scale(n, p)}
    raise ScaleError(
        f"scale is a {type(scale).__name__}. Pass None for all parameters, names or patterns, "
        "module types, or a function of name and parameter."
    )


def _own(module: nn.Module) -> Iterator[nn.Parameter]:
    return module.parameters(recurse=False)


def _matches(name: str, pattern: str) -> bool:
    """As a pattern, or as the name of a module that holds the parameter."""
    return fnmatch.fnmatchcase(name, pattern) or name.startswith(f"{pattern}.")


class Products(dict[int, Tensor]):
    """``a·θ`` by the id of θ, computed when it is first asked for; θ itself has no multiplier."""

    def __init__(self, parameters: Mapping[str, Tensor]) -> None:
        super().__init__()
        self._names = {id(p): name for name, p in parameters.items()}
        self._multipliers: dict[str, Tensor] = {}

    def use(self, multipliers: Mapping[str, Tensor]) -> None:
        """Multiply by these from now on."""
        self._multipliers.update(multipliers)
        self.clear()

    def multiplier_of(self, parameter: Tensor) -> Tensor | None:
        """The present ``a`` of θ."""
        return self._multipliers.get(self._names.get(id(parameter), ""))

    def of(self, parameter: Tensor) -> Tensor:
        """What stands in for ``parameter``."""
        a = self.multiplier_of(parameter)
        if a is None:
            return parameter
        if id(parameter) not in self:
            with torch._C.DisableTorchFunction():  # a product is no call of the model
                product = a.to(parameter.dtype) * parameter
            self[id(parameter)] = standing_for(parameter, product)
        return self[id(parameter)]


class Twin:
    """Runs a model with some of its parameters multiplied, without changing it.

    A linear layer or convolution multiplies its output instead of its weight: the same function,
    but no weight gradient is needed. ``opened`` modules, whose inside is watched, are left out.
    """

    def __init__(
        self,
        model: nn.Module,
        parameters: Mapping[str, Tensor],
        opened: Collection[nn.Module] = (),
    ) -> None:
        self.parameters = dict(parameters)
        names = {id(p): name for name, p in self.parameters.items()}
        self._owners: dict[str, list[tuple[nn.Module, str]]] = {n: [] for n in self.parameters}
        self._output_scaled = {
            m for m in model.modules() if type(m) in _SCALED_AT_OUTPUT and m not in opened
        }
        for module in model.modules():
            for key, p in module._parameters.items():
                if p is not None and id(p) in names:
                    self._owners[names[id(p)]].append((module, key))

    @contextmanager
    def applied(self, multipliers: Mapping[str, Tensor]) -> Iterator[Products]:
        """Inside, the model runs with ``a·θ``; gradients flow to the multipliers.

        They can be exchanged for others (`Products.use`) while the model runs.
        """
        products = _LiveProducts(self.parameters)
        products.use(multipliers)
        undo: list[tuple[dict[str, Any], str, Any]] = []

        def put(table: dict[str, Any], key: str, value: Any) -> None:
            undo.append((table, key, table.get(key, _MISSING)))
            table[key] = value

        owners = dict.fromkeys(module for name in multipliers for module, _ in self._owners[name])
        try:
            for module in owners:
                if module in self._output_scaled:
                    put(module.__dict__, "forward", _ScaledLayer(module, products))
                put(module.__dict__, "_parameters", _Table(module._parameters, products))
                if isinstance(module, nn.RNNBase):
                    put(module.__dict__, "_flat_weights", module._flat_weights)
                    products.recurrent.append((module, module._flat_weights))
            products.use({})
            yield products
        finally:
            for table, key, value in reversed(undo):
                if value is _MISSING:
                    del table[key]
                else:
                    table[key] = value


class _LiveProducts(Products):
    """Recurrent layers keep a list of their weights, which has to follow the multipliers."""

    def __init__(self, parameters: Mapping[str, Tensor]) -> None:
        super().__init__(parameters)
        self.recurrent: list[tuple[nn.RNNBase, list[Tensor | None]]] = []

    def use(self, multipliers: Mapping[str, Tensor]) -> None:
        super().use(multipliers)
        for module, weights in self.recurrent:
            module.__dict__["_flat_weights"] = [w if w is None else self.of(w) for w in weights]


class _Table(dict[str, Tensor | None]):
    """A module's table of parameters, in which a look-up finds ``a·θ``.

    So whoever reads ``layer.weight`` gets the product, also without calling the layer, and nobody
    pays for products that nobody reads.
    """

    def __init__(self, parameters: dict[str, Any], products: Products) -> None:
        super().__init__(parameters)
        self._products = products

    def __getitem__(self, key: str) -> Tensor | None:
        parameter = super().__getitem__(key)
        return None if parameter is None else self._products.of(parameter)


_MISSING = object()


class _ScaledLayer:
    """The ``forward`` of a linear layer or convolution as ``a_W · (W x) + a_b · b``.

    ``a_W`` multiplies ``x`` instead where that is the smaller tensor.
    """

    def __init__(self, module: Any, products: Products) -> None:
        self.weight: Tensor = module.weight
        self.bias: Tensor | None = module.bias
        self.products = products
        if isinstance(module, nn.Linear):
            self.apply: Callable[[Tensor, Tensor, Tensor | None], Tensor] = F.linear
            self.bias_shape: tuple[int, ...] = (-1,)
            self.widens = module.in_features < module.out_features
        else:
            self.apply = module._conv_forward
            self.bias_shape = (-1, *[1] * len(module.kernel_size))
            self.widens = module.in_channels * math.prod(module.stride) < module.out_channels

    def __call__(self, x: Tensor) -> Tensor:
        a = self.products.multiplier_of(self.weight)
        bias = None if self.bias is None else self.products.of(self.bias)
        if a is None or self.widens:
            return self.apply(x if a is None else _scaled(x, a), self.weight, bias)
        out = _scaled(self.apply(x, self.weight, None), a)
        return out if bias is None else out + bias.to(out.dtype).reshape(self.bias_shape)


def _scaled(x: Tensor, a: Tensor) -> Tensor:
    scaled: Tensor = _Scale.apply(x, a.to(x.dtype))
    return scaled


class _Scale(torch.autograd.Function):
    """``a x`` for a scalar ``a``, whose derivative by ``a`` takes no temporary tensor."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, a: Tensor) -> Tensor:
        ctx.save_for_backward(x, a)
        return x * a

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, a = ctx.saved_tensors
        by_x = _scaled(g, a) if ctx.needs_input_grad[0] else None
        by_a = torch.dot(g.flatten(), x.flatten()) if ctx.needs_input_grad[1] else None
        return by_x, by_a


_SCALED_AT_OUTPUT = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
