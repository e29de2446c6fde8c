"""A user's activation as a function of float64 arrays, with its derivative and its kinks."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from critinit.theory._checks import Array
from critinit.theory._pieces import Pieces
from critinit.theory.errors import ActivationError

Phi = Callable[[Any], Any]
Function = Callable[[Array], Array]
_TRIAL = np.array([-3.1, -1.7, -0.9, -0.3, 0.2, 0.7, 1.3, 2.9])


class ScalarFunction:
    """``φ`` applied element by element: a torch function or module, or any function of numbers.

    The derivative of a torch function is what autograd says, so that a prediction is about the
    same derivative that a measurement sees. That of any other function is the derivative of the
    polynomials through its values on panels where it is smooth.
    """

    def __init__(self, phi: Phi, name: str) -> None:
        self.name = name
        self._phi = copy.deepcopy(phi).cpu().double() if isinstance(phi, nn.Module) else phi
        self._values, self._differentiable = self._way_to_call()
        self._check_elementwise()
        self._pieces = Pieces(self._rows, 2 if self._differentiable else 1)
        self._breaks: dict[int, tuple[Array, Array]] = {}

    def __call__(self, u: Array) -> Array:
        """``φ(u)``."""
        try:
            values = self._values(u)
        except Exception as error:  # anything: the function is the user's
            raise ActivationError(
                f"{self.name} fails between {u.min():.6g} and {u.max():.6g}: "
                f"{type(error).__name__}: {error}"
            ) from error
        if not np.isfinite(values).all():
            bad = int(np.argmin(np.isfinite(values)))
            raise ActivationError(
                f"{self.name}({u.ravel()[bad]:.6g}) is {values.ravel()[bad]}: an activation must "
                "be finite wherever its Gaussian input is not negligible. Write it without "
                "overflow, or take a smaller K."
            )
        return values

    def derivative(self, u: Array) -> Array:
        """``φ'(u)``."""
        if self._differentiable:
            return self._autograd(u)
        self._refuse_jumps(float(np.abs(u).max(initial=0.0)))
        return self._pieces.slope(u)

    def breaks(self, reach: float) -> Array:
        """Edges of panels on which φ and φ' are smooth, within ``reach`` of zero."""
        return self._within(reach)[0]

    def kinks(self, reach: float) -> Array:
        """Those edges at which some derivative jumps."""
        return self._within(reach)[1]

    def _within(self, reach: float) -> tuple[Array, Array]:
        octave = max(0, int(np.ceil(np.log2(max(reach, 1.0)))))
        if octave not in self._breaks:
            edges, kinks = self._pieces.edges(2.0**octave), self._pieces.kinks(2.0**octave)
            self._breaks[octave] = edges[np.abs(edges) <= 2.0**octave], kinks
        return self._breaks[octave]

    def _rows(self, u: Array) -> Array:
        if self._differentiable:
            return np.stack([self(u), self._autograd(u)])
        return self(u)[None]

    def _refuse_jumps(self, reach: float) -> None:
        kinks = self.kinks(reach)
        if not len(kinks):
            return
        size = np.maximum(np.abs(kinks), 1.0)
        around = self(kinks[:, None] + size[:, None] * np.array([-1.0, -0.5, 0.5, 1.0]))
        jumps = np.abs(self(kinks + 1e-10 * size) - self(kinks - 1e-10 * size))
        jumped = jumps > 1e-6 * np.abs(around).max(axis=1)
        if jumped.any():
            raise ActivationError(
                f"{self.name} jumps at {kinks[jumped][0]:.6g}: its squared derivative has no "
                "finite mean, so J is infinite. Use a continuous activation."
            )

    def _way_to_call(self) -> tuple[Function, bool]:
        """The first of these that works: on a tensor, on an array, on single numbers."""
        if not callable(self._phi):
            raise ActivationError(
                f"{self._phi!r} is neither the name of an activation nor callable."
            )
        ways: list[tuple[Function, bool]] = [(self._torch_values, True)]
        if not isinstance(self._phi, nn.Module):
            ways += [(self._array_values, False), (self._single_values, False)]
        causes: list[Exception] = []
        for way, differentiable in ways:
            try:
                way(_TRIAL)
            except Exception as error:  # anything: the function is the user's
                causes.append(error)
            else:
                return way, differentiable
        for cause in causes:
            if isinstance(cause, ActivationError):
                raise cause
        raise ActivationError(
            f"{self.name} cannot be called on a float64 tensor, an array or a number: "
            f"{type(causes[-1]).__name__}: {causes[-1]}"
        ) from causes[-1]

    def _torch_values(self, u: Array) -> Array:
        with torch.enable_grad():
            _, out = self._call(u)
        return out.detach().numpy().reshape(u.shape)

    def _array_values(self, u: Array) -> Array:
        with np.errstate(all="ignore"):
            out = np.asarray(self._phi(u.copy()), dtype=np.float64)
        self._check_shape(out.shape, u.shape)
        return out

    def _single_values(self, u: Array) -> Array:
        with np.errstate(all="ignore"):
            values = [float(self._phi(number)) for number in u.ravel().tolist()]
        return np.reshape(np.array(values), u.shape)

    def _autograd(self, u: Array) -> Array:
        with torch.enable_grad():
            x, out = self._call(u)
            if not out.requires_grad:
                return np.zeros_like(u)
            (slope,) = torch.autograd.grad(out.sum(), x, materialize_grads=True)
        found: Array = slope.numpy().reshape(u.shape)
        if not np.isfinite(found).all():
            bad = u.ravel()[int(np.argmin(np.isfinite(found)))]
            raise ActivationError(
                f"the derivative of {self.name} at {bad:.6g} is not finite, as autograd has it."
            )
        return found

    def _call(self, u: Array) -> tuple[Tensor, Tensor]:
        """A tensor and φ of it; it asks for gradients, so that no numpy function takes it."""
        x = torch.tensor(u.ravel(), dtype=torch.float64, requires_grad=True)
        out = self._phi(x.clone())  # which φ may overwrite
        if not isinstance(out, Tensor):
            raise TypeError(f"a {type(out).__name__} came out of a tensor")
        self._check_shape(tuple(out.shape), (u.size,))
        return x, out.to(torch.float64)

    def _check_shape(self, got: tuple[int, ...], wanted: tuple[int, ...]) -> None:
        if got != wanted:
            raise ActivationError(
                f"{self.name} returns shape {got} for shape {wanted}: an activation acts on each "
                "element alone."
            )

    def _check_elementwise(self) -> None:
        whole = self(_TRIAL)
        each = np.concatenate([self(u) for u in _TRIAL[:, None]])
        if not np.allclose(whole, each, rtol=1e-6, atol=1e-9):
            raise ActivationError(
                f"{self.name} gives an element another value when it comes with others: it mixes "
                "elements, or it is random. Pass an elementwise function, or call eval() first."
            )
