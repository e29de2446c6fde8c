"""Watch every call a model makes, of a module or of a torch function, while it runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves


def tensors_in(tree: object) -> list[Tensor]:
    """All tensors in nested tuples, lists, dicts and registered containers, in order."""
    if isinstance(tree, Tensor):
        return [tree]
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


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
    Whatever happens while ``muted`` is set stays unseen: subclasses set it around the inside of a
    call they treat as one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.muted = False
        self._thread = threading.get_ident()

    def on_module(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:  # pragma: no cover - replaced
        return self.forward(module, args, kwargs)

    def on_function(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:  # pragma: no cover - replaced
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

    def __enter__(self) -> CallWatcher:
        watcher, plain_call = self, nn.Module.__call__

        def watched_call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != watcher._thread:
                return plain_call(module, *args, **kwargs)
            module = same_module(module)
            if watcher.muted:
                return watcher.forward(module, args, kwargs)
            return watcher.on_module(module, args, kwargs)

        self._plain_call = plain_call
        nn.Module.__call__ = watched_call  # type: ignore[method-assign]
        super().__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        super().__exit__(*exc)
        nn.Module.__call__ = self._plain_call  # type: ignore[method-assign]
