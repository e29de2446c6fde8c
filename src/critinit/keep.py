"""The ways of returning a tuned model: multipliers folded into the weights, or kept beside them.

A kept multiplier has to be met wherever its parameter is read, also by code that never calls the
module that owns it (tied weights, attention's output projection). So the owner gets a subclass of
its own class, in which reading ``weight`` gives ``a · θ``; nothing else about it changes.
`torch.nn.utils.parametrize` works in the same way, but renames θ and cannot be pickled.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any, ClassVar, Literal, TypeVar, cast, get_args
from weakref import WeakValueDictionary

import torch
from torch import Tensor, nn

from critinit.errors import CritinitError

Keep = Literal["fold", "frozen", "trainable"]
Model = TypeVar("Model", bound=nn.Module)

_SUFFIX = "_multiplier"


class KeepError(CritinitError):
    """The multipliers cannot be kept in the way that was asked for, or not be folded."""


def keep_multipliers(model: nn.Module, multipliers: Mapping[str, float], how: Keep) -> None:
    """Make ``model`` compute with ``a θ`` in place of each named θ, for all or none of them.

    With ``"fold"`` θ itself changes, and the model is plain PyTorch. With ``"frozen"`` and
    ``"trainable"`` θ stays, under its old name, and beside ``weight`` there is a buffer or
    parameter ``weight_multiplier``; tied parameters share it. `fold_` turns these into the first.

    Code that reads a kept ``module.weight`` gets ``a θ``, a temporary tensor: to change or
    re-initialize θ in place, take it from ``model.named_parameters()``. To load a saved state into
    a new model, first keep multipliers of 1 in it. For TorchScript, `fold_` first.

    >>> model = nn.Linear(3, 2)
    >>> keep_multipliers(model, {"weight": 2.0}, "trainable")
    >>> [name for name, _ in model.named_parameters()]
    ['weight', 'bias', 'weight_multiplier']
    >>> torch.equal(model.weight, 2 * dict(model.named_parameters())["weight"])
    True
    >>> fold_(model)
    Linear(in_features=3, out_features=2, bias=True)
    >>> [name for name, _ in model.named_parameters()]
    ['weight', 'bias']
    """
    check_keep(model, multipliers, how)
    parameters = {n: p for n, p in model.named_parameters() if n in multipliers}
    if how == "fold":
        factors = {p: multipliers[name] for name, p in parameters.items()}
        _all_or_none(partial(_fold, factors), values=factors)
    else:
        kept = {p: _multiplier(p, multipliers[n], how) for n, p in parameters.items()}
        owners = _owners(model, kept)
        _all_or_none(partial(_attach, kept, owners), modules=owners)


def fold_(model: Model) -> Model:
    """``θ ← a θ`` for every kept multiplier in ``model``, which is plain PyTorch again.

    In place, for all or none; returns the model. Give the whole model: a parameter tied to one
    outside of what is given would change there too.
    """
    if not isinstance(model, nn.Module):
        raise KeepError(f"model is a {type(model).__name__}. Pass the nn.Module to fold.")
    owners = [m for m in model.modules() if isinstance(m, _Multiplied)]
    for module in owners:
        _check_own_class(module)
    factors = _factors(model)
    _all_or_none(partial(_fold, factors, owners), modules=owners, values=factors)
    return model


def check_plain(model: nn.Module, work: str) -> None:
    """Refuse a model that holds multipliers already."""
    if any(isinstance(module, _Multiplied) for module in model.modules()):
        raise KeepError(
            "the model has multipliers already. Fold them in with critinit.fold_(model) first, "
            f"then call {work}."
        )


def check_keep(model: nn.Module, names: Collection[str], how: Keep) -> None:
    """Raise what `keep_multipliers` would raise, before any multiplier is known.

    Raises:
        KeepError: ``how`` or a name is unknown, the model has multipliers already, or a module
            does something else with its parameters than reading them as attributes.
    """
    if how not in get_args(Keep):
        raise KeepError(f"keep={how!r} is unknown. Use 'fold', 'frozen' or 'trainable'.")
    parameters = dict(model.named_parameters())
    for name in names:
        if name not in parameters:
            raise KeepError(
                f"multipliers: no parameter is called {name!r} (a tied one goes by the first of "
                f"its names). There are {', '.join(list(parameters)[:6])}, …"
            )
    called = {module: _called(place, module) for place, module in model.named_modules()}
    for module, its_name in called.items():
        if isinstance(module, _Multiplied):
            raise KeepError(
                f"{its_name} has multipliers already. Fold them in with critinit.fold_(model) "
                "first."
            )
    if how != "fold":
        for module, keys in _owners(model, {parameters[name] for name in names}).items():
            _check_owner(called[module], module, keys, how)


def _check_owner(called: str, module: nn.Module, keys: Iterable[str], how: Keep) -> None:
    if (reason := _reason_against(module)) is not None:
        raise KeepError(
            f"{called} {reason}, so keep={how!r} cannot work for it. Use keep='fold', or leave "
            "its parameters out with scale=."
        )
    for key in keys:
        if hasattr(module, key + _SUFFIX):
            raise KeepError(
                f"{called} has an attribute {key + _SUFFIX!r} of its own, where keep={how!r} "
                "would put the multiplier. Rename it, or use keep='fold'."
            )


def _reason_against(module: nn.Module) -> str | None:
    if isinstance(module, nn.RNNBase | torch.jit.ScriptModule):
        return "does not read its weights as attributes"
    if isinstance(module, nn.Embedding | nn.EmbeddingBag) and module.max_norm is not None:
        return "rewrites its weight while it runs (max_norm)"
    return None


def _check_own_class(module: _Multiplied) -> None:
    if module._plain_class not in type(module).__bases__:
        raise KeepError(
            f"a {type(module).__name__} was given another class (by a parametrization?) after its "
            "multipliers were kept. Undo that, then fold them in."
        )


def _called(place: str, module: nn.Module) -> str:
    return f"{place or 'the model'} ({type(module).__name__})"


def _owners(
    model: nn.Module, parameters: Collection[nn.Parameter]
) -> dict[nn.Module, dict[str, nn.Parameter]]:
    """The modules that hold one of ``parameters``, a tied one more than once, and as what."""
    wanted = {id(p) for p in parameters}
    owners = {
        m: {k: p for k, p in m._parameters.items() if p is not None and id(p) in wanted}
        for m in model.modules()
    }
    return {module: held for module, held in owners.items() if held}


def _multiplier(theta: nn.Parameter, a: float, how: Keep) -> Tensor:
    """In single precision at least, so that no small step of training is rounded away."""
    with torch.inference_mode(False):
        value = torch.tensor(
            a, dtype=torch.promote_types(theta.dtype, torch.float32), device=theta.device
        )
        return value if how == "frozen" else nn.Parameter(value, theta.requires_grad)


def _attach(
    kept: Mapping[nn.Parameter, Tensor], owners: Mapping[nn.Module, Mapping[str, nn.Parameter]]
) -> None:
    for module, held in owners.items():
        for key, theta in held.items():
            a = kept[theta]
            if isinstance(a, nn.Parameter):
                module.register_parameter(key + _SUFFIX, a)
            else:
                module.register_buffer(key + _SUFFIX, a)
        module.__class__ = _multiplied_class(type(module), tuple(held))


def _fold(factors: Mapping[nn.Parameter, float], owners: Iterable[_Multiplied] = ()) -> None:
    for theta, a in factors.items():
        theta.mul_(a)
    for module in owners:
        for key in module._multiplied_names:
            if hasattr(module, key + _SUFFIX):  # not so if made by type(module)(…)
                delattr(module, key + _SUFFIX)
        cast("nn.Module", module).__class__ = module._plain_class


def _factors(model: nn.Module) -> dict[nn.Parameter, float]:
    """What every θ is multiplied by; tied ones have to agree on it."""
    found: dict[nn.Parameter, float] = {}
    for place, module in model.named_modules():
        for key, theta in module._parameters.items():
            if theta is None:
                continue
            a = _multiplier_of(module, key)
            factor = 1.0 if a is None else float(a.detach())
            if found.setdefault(theta, factor) != factor:
                raise KeepError(
                    f"{key} of {_called(place, module)} is tied to a parameter that is multiplied "
                    f"by {found[theta]:.4g}, but is itself multiplied by {factor:.4g}: no single "
                    "value can stand for both. Make the multipliers equal, or untie them."
                )
    return {theta: factor for theta, factor in found.items() if factor != 1}


def _multiplier_of(module: nn.Module, key: str) -> Tensor | None:
    if isinstance(module, _Multiplied) and key in module._multiplied_names:
        return cast("Tensor | None", getattr(module, key + _SUFFIX, None))
    return None


@torch.no_grad()
def _all_or_none(
    change: Callable[[], None],
    modules: Collection[nn.Module] = (),
    values: Collection[Tensor] = (),
) -> None:
    """Make ``change``; if anything interrupts it, modules and values are as they were."""
    classes = [(module, type(module)) for module in modules]
    tables: list[tuple[dict[str, Any], dict[str, Any]]] = [
        (table, dict(table)) for m in modules for table in (m._parameters, m._buffers)
    ]
    copies = [(value, value.detach().clone()) for value in values]
    try:
        change()
    except BaseException:
        for module, its_class in classes:
            module.__class__ = its_class
        for table, entries in tables:
            table.clear()
            table.update(entries)
        for value, copy in copies:
            value.copy_(copy)
        raise


class _Multiplied(nn.Module):
    """Comes before the class of a module whose multipliers are kept; see `_multiplied_class`."""

    _plain_class: ClassVar[type[nn.Module]]
    _multiplied_names: ClassVar[tuple[str, ...]]

    def __delattr__(self, name: str) -> None:
        """Refuse what `torch.nn.utils.parametrize` begins with: it would take ``a θ`` for θ."""
        if name in self._multiplied_names:
            raise _in_the_way(self, name)
        super().__delattr__(name)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """As the plain class does; the class made here cannot be found by its name."""
        build, args, *state = cast("tuple[Any, ...]", super().__reduce_ex__(protocol))
        plain = tuple(self._plain_class if arg is type(self) else arg for arg in args)
        return _rebuilt, (self._multiplied_names, build, *plain), *state


class _MultipliedList(_Multiplied, nn.ParameterList):
    def __getitem__(self, index: Any) -> Any:
        """A slice as a plain list: a ParameterList would detach its entries."""
        if isinstance(index, slice):
            return [self[i] for i in range(len(self))[index]]
        return super().__getitem__(index)


_CLASSES: WeakValueDictionary[tuple[type[nn.Module], tuple[str, ...]], type[nn.Module]] = (
    WeakValueDictionary()
)


def _multiplied_class(plain: type[nn.Module], names: tuple[str, ...]) -> type[nn.Module]:
    """The subclass of ``plain`` that reads ``names`` multiplied, and passes for ``plain`` else."""
    if (made := _CLASSES.get((plain, names))) is not None:
        return made
    first = _MultipliedList if issubclass(plain, nn.ParameterList) else _Multiplied
    as_plain = {key: getattr(plain, key) for key in ("__module__", "__qualname__", "__doc__")}
    products = {name: _product(name) for name in names}
    own = {**as_plain, **products, "_plain_class": plain, "_multiplied_names": names}
    made = cast("type[nn.Module]", type(plain.__name__, (first, plain), own))
    return _CLASSES.setdefault((plain, names), made)


def _rebuilt(names: tuple[str, ...], build: Callable[..., nn.Module], *args: Any) -> nn.Module:
    """What pickle and copy start from."""
    module = build(*args)
    module.__class__ = _multiplied_class(type(module), names)
    return module


def _product(name: str) -> property:
    """``a · θ``; θ alone in a new module made by ``type(module)(…)``."""

    def read(module: nn.Module) -> Any:
        theta: Any = nn.Module.__getattr__(module, name)
        a = getattr(module, name + _SUFFIX, None)
        if theta is None or a is None:
            return theta
        if isinstance(theta, torch.fx.Proxy):
            raise KeepError(
                f"torch.fx would multiply {name!r} of a {type(module).__name__} twice. Use "
                "torch.export, or fold the multipliers in with critinit.fold_(model) first."
            )
        return (theta * a).to(theta.dtype)

    def write(module: nn.Module, value: Any) -> None:
        """Parameters do not get here: only what should take the place of one."""
        if not getattr(module, "_is_replica", False):  # made by nn.DataParallel, for one run
            raise _in_the_way(module, name)
        module._parameters[name] = value

    return property(read, write)


def _in_the_way(module: nn.Module, name: str) -> KeepError:
    return KeepError(
        f"{name!r} of a {type(module).__name__} has a multiplier, so it can be neither removed nor "
        "exchanged for another tensor. Fold the multipliers in with critinit.fold_(model) first."
    )
