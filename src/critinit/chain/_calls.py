"""Watch every call a model makes, of a module or of a torch function, while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Self

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

_CONTAINS_NOTHING = {type(None), bool, int, float, str, slice}


def tensors_in(tree: object) -> list[Tensor]:
    """All tensors in nested tuples, lists, dicts and registered containers, in order."""
    found: list[Tensor] = []
    _collect(tree, found)
    return found


def _collect(tree: object, found: list[Tensor]) -> None:
    """As ``tree_leaves``, without its cost for what nearly all arguments are."""
    if isinstance(tree, Tensor):
        found.append(tree)
    elif type(tree) is tuple or type(tree) is list:
        for item in tree:
            _collect(item, found)
    elif type(tree) is dict:
        for item in tree.values():
            _collect(item, found)
    elif type(tree) not in _CONTAINS_NOTHING:
        found += [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def same_module(module: nn.Module) -> nn.Module:
    """The module itself behind ``torch.compile`` or a data-parallel wrapper.

    Second derivatives do not exist through a compiled module, and the wrappers add nothing to the
    function that is measured.
    """
    while True:
        inner = getattr(module, "_orig_mod", None)
        if inner is None and isinstance(
            module, (nn.parallel.DataParallel, nn.parallel.DistributedDataParallel)
        ):
            inner = module.module
        if not isinstance(inner, nn.Module):
            return module
        module = inner


class CallWatcher(TorchFunctionMode):
    """Shows each call made inside ``with watcher:`` to ``on_module`` and ``on_function``.

    Subclasses run the call themselves (``forward()``) and return what the model shall receive.
    Module calls are seen through the attribute that ``nn.Module.__call__`` consults for a compiled
    form of the module. So only this model's modules are watched, and they always run uncompiled.
    """

    def __init__(self, modules: Iterable[nn.Module]) -> None:
        super().__init__()
        self.muted = False  # set around the inside of a call that is treated as one
        self._modules = list(modules)
        self._compiled: list[Any] = []

    def on_module(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Answer the call of a module."""
        return self.forward(module, args, kwargs)

    def on_function(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Answer the call of a torch function."""
        return func(*args, **kwargs)

    @staticmethod
    def forward(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a module with all its hooks, never its compiled form."""
        return module._call_impl(*args, **kwargs)

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if self.muted:
            return func(*args, **(kwargs or {}))
        return self.on_function(func, args, kwargs or {})

    def _called(self, module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        inner = same_module(module)
        if inner is not module:
            return inner(*args, **kwargs)
        if self.muted:
            return self.forward(module, args, kwargs)
        return self.on_module(module, args, kwargs)

    def __enter__(self) -> Self:
        for module in self._modules:
            self._compiled.append(module.__dict__.get("_compiled_call_impl"))
            module.__dict__["_compiled_call_impl"] = partial(self._called, module)
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *exc: Any) -> None:
        super().__exit__(*exc)  # type: ignore[no-untyped-call]
        for module, compiled in zip(self._modules, self._compiled, strict=True):
            if compiled is None:
                del module.__dict__["_compiled_call_impl"]
            else:
                module.__dict__["_compiled_call_impl"] = compiled
        self._compiled.clear()
