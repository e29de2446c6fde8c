"""A function in a file of the user's."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from inspect import Parameter, signature
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from critinit.cli._console import no_results
from critinit.cli._settings import typed
from critinit.cli.errors import CommandError
from critinit.cli.sources._building import building
from critinit.models._options import suggestion


def is_file(model: str) -> bool:
    """Whether it is written as ``path/to/file.py:factory``."""
    path, colon, factory = model.rpartition(":")
    return bool(colon) and path.endswith(".py") and factory.isidentifier()


class OwnFile:
    """``path/to/file.py:factory``. The file is run, with all that it does."""

    adapts = True

    def __init__(self, model: str, settings: Mapping[str, str]) -> None:
        path, _, name = model.rpartition(":")
        self.name = model
        self.factory = _function(_run(Path(path).expanduser()), name, path)
        self.options = typed(settings, _parameters(self.factory), name)

    def example(self) -> None:
        """Only its author knows."""

    def build(self, shape: Sequence[int]) -> nn.Module:
        """What the function returns; it is not told of the shape."""
        with building(self.name):
            made = self.factory(**self.options)
        if not isinstance(made, nn.Module):
            raise CommandError(
                f"{self.name} returned something of type {type(made).__name__}: it must return a "
                "torch.nn.Module."
            )
        return made


def _run(path: Path) -> ModuleType:
    if not path.is_file():
        raise CommandError(f"there is no file {path}: check the path.")
    sys.path.insert(0, str(path.resolve().parent))  # as `python file.py` does
    name = f"critinit_user_{path.stem}"
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look there
    try:
        with no_results():
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise CommandError(
            f"{path} failed while it was run: {type(error).__name__}: {error}."
        ) from error
    return module


def _function(module: ModuleType, name: str, path: str) -> Callable[..., Any]:
    found: object = getattr(module, name, None)
    if callable(found):
        return found
    own = [k for k, v in vars(module).items() if callable(v) and not k.startswith("_")]
    hint = suggestion(name, own) if own else "It has no functions."
    raise CommandError(f"{path} has no function {name!r}. {hint}")


def _parameters(factory: Callable[..., Any]) -> Mapping[str, Parameter]:
    try:
        return signature(factory, eval_str=True).parameters
    except Exception:  # annotations that cannot be evaluated
        return signature(factory).parameters
