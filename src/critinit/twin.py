"""The twin network: every parameter θ times a scalar multiplier a_θ (eq. twin_preact)."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

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

    def __init__(self, scaled: Mapping[int, tuple[Tensor, Tensor]]) -> None:
        super().__init__()
        self._scaled = scaled

    def of(self, parameter: Tensor) -> Tensor:
        """What stands in for ``parameter``."""
        if id(parameter) not in self._scaled:
            return parameter
        if id(parameter) not in self:
            a, theta = self._scaled[id(parameter)]
            with torch._C.DisableTorchFunction():  # a product is no call of the model
                self[id(parameter)] = a.to(theta.dtype) * theta
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
        """Inside, the model runs with ``a·θ``; gradients flow to the multipliers."""
        products = Products(
            {id(self.parameters[n]): (a, self.parameters[n]) for n, a in multipliers.items()}
        )
        undo: list[tuple[dict[str, Any], str, Any]] = []

        def put(table: dict[str, Any], key: str, value: Any) -> None:
            undo.append((table, key, table.get(key, _MISSING)))
            table[key] = value

        by_module: dict[nn.Module, dict[str, Tensor]] = {}
        for name, a in multipliers.items():
            for module, key in self._owners[name]:
                by_module.setdefault(module, {})[key] = a
        try:
            for module, a_of in by_module.items():
                if module in self._output_scaled:
                    layer = _ScaledLayer(module, a_of)
                    put(module.__dict__, "forward", layer)
                put(module.__dict__, "_parameters", _Table(module._parameters, products))
                if isinstance(module, nn.RNNBase):
                    flat = [products.of(w) for w in module._flat_weights if w is not None]
                    put(module.__dict__, "_flat_weights", flat)
            yield products
        finally:
            for table, key, value in reversed(undo):
                if value is _MISSING:
                    del table[key]
                else:
                    table[key] = value


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
    """The ``forward`` of a linear layer or convolution as ``a_W · (W x) + a_b · b``."""

    def __init__(self, module: Any, a: Mapping[str, Tensor]) -> None:
        self.weight: Tensor = module.weight
        self.bias: Tensor | None = module.bias
        self.a = a
        if isinstance(module, nn.Linear):
            self.apply: Callable[[Tensor, Tensor, None], Tensor] = F.linear
            self.bias_shape: tuple[int, ...] = (-1,)
        else:
            self.apply = module._conv_forward
            self.bias_shape = (-1, *[1] * len(module.kernel_size))

    def __call__(self, x: Tensor) -> Tensor:
        out = self.apply(x, self.weight, None)
        if "weight" in self.a:
            out = out * self.a["weight"].to(out.dtype)
        if self.bias is None:
            return out
        bias = self.bias.to(out.dtype).reshape(self.bias_shape)
        return out + (bias * self.a["bias"].to(out.dtype) if "bias" in self.a else bias)


_SCALED_AT_OUTPUT = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
