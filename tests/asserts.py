"""Assertions that several test files share."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn


def assert_unbiased(samples: Tensor, exact: Tensor, sigmas: float = 5.0) -> None:
    """The mean of ``samples`` (one row a draw) is ``exact`` within its standard error."""
    mean, error = samples.mean(0), samples.std(0) / samples.shape[0] ** 0.5
    off = (mean - exact).abs()
    allowed = sigmas * error + 1e-5 * exact.abs()
    assert (off <= allowed).all(), f"off by {(off / error).tolist()} standard errors"
    assert (error <= 0.5 * exact.abs() + 1e-12).all(), "the draws are too few to show anything"


class StateOf:
    """Everything a run could change; compare with ``assert_same`` afterwards."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.values = {
            name: (tensor, tensor.detach().clone(), tensor.requires_grad, tensor.grad)
            for name, tensor in [*model.named_parameters(), *model.named_buffers()]
        }
        self.modules = {name: self._shallow(m) for name, m in model.named_modules()}
        self.world = self._world()

    @staticmethod
    def _shallow(module: nn.Module) -> dict[str, Any]:
        return {
            key: dict(value) if isinstance(value, dict) else value
            for key, value in vars(module).items()
        }

    @staticmethod
    def _world() -> dict[str, Any]:
        return {
            "torch": torch.get_rng_state().tolist(),
            "numpy": str(np.random.get_state()),
            "python": random.getstate(),
            "grad": torch.is_grad_enabled(),
            "autocast": torch.is_autocast_enabled("cpu"),
            "deterministic": torch.are_deterministic_algorithms_enabled(),
            "flash": torch.backends.cuda.flash_sdp_enabled(),
            "math": torch.backends.cuda.math_sdp_enabled(),
            "dtype": torch.get_default_dtype(),
            "modes": torch._C._len_torch_function_stack(),
            "call": nn.Module.__call__,
        }

    def assert_same(self) -> None:
        now = dict([*self.model.named_parameters(), *self.model.named_buffers()])
        assert now.keys() == self.values.keys()
        for name, (tensor, value, asked, grad) in self.values.items():
            assert now[name] is tensor, f"{name} was replaced"
            assert torch.equal(_bits(tensor), _bits(value)), f"{name} has other values"
            assert tensor.requires_grad is asked, f"{name} has another requires_grad"
            assert tensor.grad is grad, f"{name} has another grad"
        modules = dict(self.model.named_modules())
        assert modules.keys() == self.modules.keys()
        for name, saved in self.modules.items():
            found = self._shallow(modules[name])
            assert found.keys() == saved.keys(), f"{name}: {found.keys() ^ saved.keys()}"
            for key, value in saved.items():
                same = found[key] is value or (
                    isinstance(value, dict)
                    and list(value) == list(found[key])
                    and all(found[key][k] is v for k, v in value.items())
                )
                assert same, f"{name}.{key} changed"
        assert self._world() == self.world


def _bits(tensor: Tensor) -> Tensor:
    """As bytes, so that NaN equals NaN and -0 differs from 0."""
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


def assert_same_text(printed: str, shown: str, relative: float, absolute: float) -> None:
    """Word for word, but for the last digits of numbers and one character of a bar.

    Processors and versions of torch round differently.
    """
    words, expected = printed.split(), shown.split()
    assert len(words) == len(expected), printed
    for word, other in zip(words, expected, strict=True):
        assert word == other or _is_close(word, other, relative, absolute), (
            f"{word} instead of {other} in:\n{printed}"
        )


def _is_close(word: str, other: str, relative: float, absolute: float) -> bool:
    if set(word + other) <= set("▒█│"):
        return abs(len(word) - len(other)) <= 1
    try:
        return float(word.strip("(),%;")) == pytest.approx(
            float(other.strip("(),%;")), rel=relative, abs=absolute
        )
    except ValueError:
        return False
