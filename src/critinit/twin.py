"""The twin network: every parameter θ times a scalar multiplier a_θ (eq. twin_preact)."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
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

    ``scale`` is None for all that are not frozen, a name or pattern (``"*.bias"``), several of
    these, a module type or tuple of types (their own parameters), or a function of name and
    parameter.
    """
    named = {n: p for n, p in model.named_parameters() if p.is_floating_point()}
    chosen = _chosen(model, named, scale)
    if not chosen and scale is None:
        raise ScaleError(
            f"all {len(named)} parameters are frozen (requires_grad=False), so none is scaled. "
            "Name those to scale with scale=."
        )
    if not chosen:
        raise ScaleError(f"scale={scale!r} selects none of the {len(named)} parameters.")
    return chosen


def _chosen(
    model: nn.Module, named: dict[str, nn.Parameter], scale: Scale
) -> dict[str, nn.Parameter]:
    if scale is None:
        return {n: p for n, p in named.items() if p.requires_grad}
    kinds = (scale,) if isinstance(scale, type) else scale
    if isinstance(kinds, tuple) and all(isinstance(kind, type) for kind in kinds):
        owners = [module for module in model.modules() if isinstance(module, kinds)]
        owned = {id(p) for module in owners for p in module.parameters(recurse=False)}
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

    The multiplier of a linear layer or convolution is differentiated by way of the layer's input or
    output rather than its weight: no weight gradient is needed. ``opened`` modules, whose inside is
    watched, are left out.
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
        self._scaled_layers = {  # not those whose weight a hook makes anew (weight_norm, pruning)
            m
            for m in model.modules()
            if type(m) in _SCALED_LAYERS and m not in opened and "weight" in m._parameters
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
                if module in self._scaled_layers:
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
    """The ``forward`` of a linear layer or convolution as ``W (a_W · x) + a_b · b``.

    Gradients reach ``a_W`` by way of ``x``, or of ``W x`` where that is much the smaller tensor.
    """

    def __init__(self, module: Any, products: Products) -> None:
        self.weight: Tensor = module.weight
        self.bias: Tensor | None = module.bias
        self.products = products
        if isinstance(module, nn.Linear):
            self.apply: Callable[[Tensor, Tensor, Tensor | None], Tensor] = F.linear
            self.bias_shape: tuple[int, ...] = (-1,)
            narrowing = module.in_features / module.out_features
            self.each_once = True
        else:
            self.apply = module._conv_forward
            self.bias_shape = (-1, *[1] * len(module.kernel_size))
            narrowing = module.in_channels * math.prod(module.stride) / module.out_channels
            self.each_once = module.padding_mode == "zeros"
        self.narrows = narrowing > _NARROWING

    def __call__(self, x: Tensor) -> Tensor:
        a = self.products.multiplier_of(self.weight)
        out = self._applied(x, a)
        if self.each_once:
            out._critinit_layer = LayerCall(self, x, a)  # type: ignore[attr-defined]
        return out

    def scaled_bias(self) -> Tensor | None:
        """``a_b · b``."""
        return None if self.bias is None else self.products.of(self.bias)

    def _applied(self, x: Tensor, a: Tensor | None) -> Tensor:
        bias = self.scaled_bias()
        if a is None:
            return self.apply(x, self.weight, bias)
        with torch._C.DisableTorchFunction():  # a product is no call of the model
            weight = a.detach().to(self.weight.dtype) * self.weight
        if not self.narrows:
            return self.apply(_followed(x, a), weight, bias)
        out = _followed(self.apply(x, weight, None), a)
        return out if bias is None else out + bias.to(out.dtype).reshape(self.bias_shape)


@dataclass(frozen=True)
class LayerCall:
    """A call of a layer, in which each weight leads once from an input to an output at most."""

    layer: _ScaledLayer
    x: Tensor
    a: Tensor | None

    def column_norms(self) -> Tensor:
        """``√(Σ_k W_ki²)``: how far each ``x_i`` moves ``W x``. It broadcasts to ``x``."""
        weight = self.layer.weight.detach()
        squares = weight.to(torch.promote_types(weight.dtype, torch.float32)).square()
        in_full = torch.autocast(weight.device.type, enabled=False)
        with torch.enable_grad(), in_full, torch._C.DisableTorchFunction():
            x = torch.zeros_like(self._one_example(), dtype=squares.dtype, requires_grad=True)
            (columns,) = torch.autograd.grad(self.layer.apply(x, squares, None).sum(), x)
        return columns.sqrt()

    def _one_example(self) -> Tensor:
        rank = len(self.layer.bias_shape)  # of an example in the last dimensions
        return self.x.flatten(0, -rank - 1)[0] if self.x.ndim > rank else self.x


def layer_behind(out: Tensor) -> LayerCall | None:
    """The call of a linear layer or convolution that returned ``out``, in a twin network."""
    call: LayerCall | None = getattr(out, "_critinit_layer", None)
    return call


def _followed(x: Tensor, a: Tensor) -> Tensor:
    """``x``, which was computed with the present value of ``a``, as a multiple of ``a``."""
    followed: Tensor = _Follow.apply(x, a, float(a.detach()))
    return followed


class _Follow(torch.autograd.Function):
    """``(a / value) x``, where ``value`` is that of ``a``: no product is computed, but its slope.

    So neither the multiplication nor its derivative by ``x`` costs a pass over the activations.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, a: Tensor, value: float) -> Tensor:
        ctx.save_for_backward(x, a)
        ctx.value = value
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        x, a = ctx.saved_tensors
        by_x: Tensor | None = None
        by_a: Tensor | None = None
        if ctx.needs_input_grad[0]:
            by_x = _Follow.apply(g, a, ctx.value)
        if ctx.needs_input_grad[1]:
            by_a = torch.dot(g.flatten(), x.flatten()).to(a.dtype) / ctx.value
        return by_x, by_a, None


_NARROWING = 2.0  # times smaller an output than the input, to be followed instead
_SCALED_LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
