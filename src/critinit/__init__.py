"""Is a PyTorch network critical at initialization? Measure it, and make it so.

The names are imported when the first of them is asked for: ``critinit --help`` need not wait for
torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from critinit._public import *  # noqa: F403
    from critinit._public import __all__ as __all__
else:
    _PACKAGES = {
        "baselines",
        "data",
        "figures",
        "models",
        "plot",
        "report",
        "theory",
        "training",
    }

    def __getattr__(name: str) -> Any:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module 'critinit' has no attribute {name!r}")
        public = import_module("critinit._public")
        if name == "__all__" or name in public.__all__:
            return getattr(public, name)
        if name in _PACKAGES:
            return import_module(f"critinit.{name}")
        if name in globals():  # a module of the package, which is there now
            return globals()[name]
        raise AttributeError(f"module 'critinit' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *import_module("critinit._public").__all__})
