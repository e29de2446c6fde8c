"""A module's own tensors, also those that parametrizations compute: read them, write them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import _SpectralNorm
from torch.nn.utils.parametrize import (
    ParametrizationList,
    is_parametrized,
    type_before_parametrizations,
)

from critinit._state import module_state
from critinit.errors import ModelError


def values_of(module: nn.Module) -> dict[str, Tensor]:
    """A module's own floating parameters, parametrized ones by what they amount to."""
    values = {k: p.detach() for k, p in module._parameters.items() if p is not None}
    parametrized = parametrizations(module)
    if parametrized:
        with module_state(module):  # spectral_norm iterates whenever it is looked at
            values |= {k: getattr(module, k).detach().clone() for k in parametrized}
    return {k: value for k, value in values.items() if value.is_floating_point()}


def parametrizations(module: nn.Module) -> dict[str, ParametrizationList]:
    """What computes a module's tensors from parameters, rather than from buffers."""
    if not is_parametrized(module):
        return {}
    lists = cast(nn.ModuleDict, module.parametrizations).items()
    return {k: cast(ParametrizationList, p) for k, p in lists if any(True for _ in _own(p))}


def originals(module: nn.Module, key: str) -> list[Tensor]:
    """The parameter behind ``key``; several where weight_norm or the like has split it."""
    parametrized = parametrizations(module).get(key)
    if parametrized is None:
        return [module.get_parameter(key)]
    return list(_own(parametrized))


def _own(module: nn.Module) -> Iterator[nn.Parameter]:
    return module.parameters(recurse=False)


def write(module: nn.Module, key: str, value: Tensor) -> None:
    """Let ``module`` use ``value`` for ``key``, through the inverse of what parametrizes it."""
    made: Any = value  # a tensor, or several after the innermost step
    for step in reversed(list(parametrizations(module).get(key, ()))):
        right_inverse: Any = getattr(step, "right_inverse", None)
        if right_inverse is not None:
            with suppress(NotImplementedError):  # it counts as the identity then, as for torch
                made = right_inverse(made)
        if isinstance(step, _SpectralNorm):  # its singular vectors are those of the old weight
            step._power_method(step._reshape_weight_to_matrix(made), 15)
    values: Sequence[Tensor] = [made] if isinstance(made, Tensor) else made
    for original, new in zip(originals(module, key), values, strict=True):
        if original.shape != new.shape:
            raise ModelError(
                f"{key} of {type(module).__name__} is parametrized from another shape, "
                f"{tuple(original.shape)}, without a right_inverse: it cannot be drawn. Give the "
                "parametrization one, or draw the submodules around it one by one."
            )
        original.copy_(new)


@torch.no_grad()
def scale_weight(module: nn.Module, factor: float) -> None:
    """Multiply what ``module`` uses as its weight, through whatever parametrizes it."""
    write(module, "weight", values_of(module)["weight"] * factor)


def unparametrized(module: nn.Module) -> nn.Module:
    """A stand-in with plain parameters where ``module`` has parametrized ones, else itself."""
    parametrized = parametrizations(module)
    if not parametrized:
        return module
    plain: nn.Module = object.__new__(type_before_parametrizations(module))
    plain.__dict__.update(module.__dict__)
    values = {key: nn.Parameter(getattr(module, key).detach().clone()) for key in parametrized}
    plain.__dict__["_parameters"] = {**module._parameters, **values}
    return plain
