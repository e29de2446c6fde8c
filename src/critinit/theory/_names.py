"""From what a user calls an activation to its expectations."""

from __future__ import annotations

import difflib
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

from critinit.theory._function import Phi, ScalarFunction
from critinit.theory.activations import Activation
from critinit.theory.closed_forms import GELU, Erf, LeakyReLU
from critinit.theory.errors import ActivationError

ActivationLike = str | Phi | Activation

_CLOSED: dict[str, Callable[[], Activation]] = {
    "linear": lambda: LeakyReLU(1.0),
    "identity": lambda: LeakyReLU(1.0),
    "relu": lambda: LeakyReLU(0.0),
    "leaky_relu": LeakyReLU,
    "erf": Erf,
    "gelu": GELU,
}
_FUNCTIONS: dict[str, Phi] = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "silu": F.silu,
    "swish": F.silu,
    "elu": F.elu,
    "celu": F.celu,
    "selu": F.selu,
    "mish": F.mish,
    "softplus": lambda u: F.softplus(u, threshold=40.0),  # torch's own jumps by 2e-9 at 20
    "softsign": F.softsign,
    "gelu_tanh": lambda u: F.gelu(u, approximate="tanh"),
    "hardtanh": F.hardtanh,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "relu6": F.relu6,
    "sin": torch.sin,
    "cos": torch.cos,
}
_TORCH: dict[object, str] = {
    torch.relu: "relu",
    F.relu: "relu",
    F.leaky_relu: "leaky_relu",
    F.gelu: "gelu",
    torch.erf: "erf",
    torch.special.erf: "erf",
}


def activation(phi: ActivationLike, *, quadrature: bool = False) -> Activation:
    """The Gaussian expectations of ``phi``.

    Args:
        phi: A name ("relu", "gelu", "tanh", …), a torch function, an ``nn.Module``, or any
            function of arrays or of single numbers. Derivatives are not needed.
        quadrature: Integrate numerically even where a closed form is known.

    Raises:
        ActivationError: If the name is unknown, or ``phi`` is no finite elementwise function.

    >>> gelu = activation("gelu")
    >>> round(float(gelu.second_moment(1.0)), 6), round(float(gelu.chi_j(1.0, sigma_w=1.4)), 6)
    (0.425221, 0.893468)
    >>> import math
    >>> own = activation(lambda u: u * (1 + math.erf(u / 2**0.5)) / 2)
    >>> abs(float(own.second_moment(1.0) - gelu.second_moment(1.0))) < 1e-12
    True
    """
    found = phi if isinstance(phi, Activation) else _closed(phi) or _integrated(phi)
    return Activation(found.function) if quadrature else found


def _closed(phi: str | Phi) -> Activation | None:
    match phi:
        case str():
            return _CLOSED[_canonical(phi)]() if _canonical(phi) in _CLOSED else None
        case nn.Identity():
            return LeakyReLU(1.0)
        case nn.ReLU():
            return LeakyReLU(0.0)
        case nn.LeakyReLU():
            return LeakyReLU(phi.negative_slope)
        case nn.GELU() if phi.approximate == "none":
            return GELU()
    name = _TORCH.get(phi) if phi.__hash__ is not None else None
    return None if name is None else _CLOSED[name]()


def _integrated(phi: str | Phi) -> Activation:
    if not isinstance(phi, str):
        name = getattr(phi, "__name__", type(phi).__name__)
        return Activation(ScalarFunction(phi, name))
    name = _canonical(phi)
    if name not in _FUNCTIONS:
        known = sorted([*_CLOSED, *_FUNCTIONS])
        nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
        hint = f"Did you mean {nearest[0]!r}?" if nearest else f"Known are {', '.join(known)}."
        raise ActivationError(f"the activation {phi!r} is unknown. {hint} Or pass a callable.")
    return Activation(ScalarFunction(_FUNCTIONS[name], name))


def _canonical(name: str) -> str:
    name = name.lower().strip().replace("-", "_").replace(" ", "_")
    return {"leakyrelu": "leaky_relu", "leaky": "leaky_relu"}.get(name, name)
