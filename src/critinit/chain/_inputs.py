"""Understand what the user passes as ``inputs``, and what the model gives back."""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only
from torch.utils.data import Dataset

from critinit.chain._calls import same_module, tensors_in
from critinit.errors import InputError, ModelError, NotDifferentiableError

_TARGET_KEYS = ("label", "labels", "label_ids")


@dataclass(frozen=True)
class Batch:
    """The arguments of one forward pass."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def tensors(self) -> list[Tensor]:
        return tensors_in((self.args, self.kwargs))

    @property
    def size(self) -> int:
        """|B|: the length of the first tensor's first dimension."""
        first = self.tensors()[0]
        return first.shape[0] if first.ndim else 1

    def with_leaves(self) -> tuple[Batch, list[Tensor]]:
        """The same batch with every floating tensor a fresh leaf of the autograd graph.

        The model receives copies of the leaves, so that it may work in place.
        """
        leaves: list[Tensor] = []

        def fresh(tensor: Tensor) -> Tensor:
            if not tensor.is_floating_point():
                return tensor.clone()
            leaves.append(tensor.detach().clone().requires_grad_())
            return leaves[-1].clone()

        return self.map(fresh), leaves

    def integers(self) -> list[Tensor]:
        """The inputs that are not floating, such as token ids."""
        return [t for t in self.tensors() if not t.is_floating_point()]

    def replace(self, positions: tuple[int, ...], tensors: tuple[Tensor, ...]) -> Batch:
        """The same batch with its floating tensors at ``positions`` exchanged."""
        exchange = dict(zip(positions, tensors, strict=True))
        count = -1

        def swap(tensor: Tensor) -> Tensor:
            nonlocal count
            if not tensor.is_floating_point():
                return tensor
            count += 1
            return exchange.get(count, tensor)

        return self.map(swap)

    def outside_inference(self) -> Batch:
        """The same batch, usable by autograd also if it was made under ``inference_mode``.

        What is not floating is copied in any case: the model may write to it.
        """
        return self.map(lambda t: t.clone() if t.is_inference() or not t.is_floating_point() else t)

    def floats(self) -> list[Tensor]:
        return [t for t in self.tensors() if t.is_floating_point()]

    def head(self, examples: int) -> Batch:
        """The first ``examples`` examples; the batch itself where it cannot be cut safely."""
        sizes = {t.shape[0] if t.ndim else -1 for t in self.tensors()}
        if len(sizes) > 1 or self.size <= examples:
            return self
        return self.map(lambda t: t[:examples])

    def map(self, function: Callable[[Tensor], Tensor]) -> Batch:
        args, kwargs = tree_map_only(Tensor, function, (self.args, self.kwargs))
        return Batch(args, kwargs)


def read_batches(model: nn.Module, inputs: object) -> Iterator[Batch]:
    """Yield every batch of ``inputs``; see `critinit.measure` for what is understood."""
    if isinstance(inputs, Batch):
        yield inputs
    elif isinstance(inputs, Tensor):
        yield Batch((inputs,), {})
    elif isinstance(inputs, tuple):
        yield Batch(inputs, {})
    elif isinstance(inputs, Mapping):
        yield _from_mapping(model, inputs)
    elif isinstance(inputs, Iterable) and not isinstance(inputs, Dataset | str | bytes):
        empty = True
        for item in inputs:
            empty = False
            yield _from_item(model, item)
        if empty:
            raise InputError(
                "inputs holds no batch: the iterable was empty. Pass at least one batch "
                "(a generator that was used before yields nothing)."
            )
    else:
        raise InputError(
            f"inputs is a {type(inputs).__name__}, which is not understood. Pass a tensor, a tuple "
            "or dict of the model's arguments, or an iterable of batches such as a DataLoader."
        )


def _from_mapping(model: nn.Module, item: Mapping[str, Any]) -> Batch:
    """The model's keyword arguments; targets only if it cannot run without."""
    required = _required_arguments(model)
    return Batch((), {k: v for k, v in item.items() if k not in _TARGET_KEYS or k in required})


def _from_item(model: nn.Module, item: object) -> Batch:
    """One element of an iterable. Of ``(x, y)`` the model gets as much as it has arguments for."""
    if isinstance(item, Batch):
        return item
    if isinstance(item, Tensor):
        return Batch((item,), {})
    if isinstance(item, Mapping):
        return _from_mapping(model, item)
    if isinstance(item, tuple | list):
        if item and isinstance(item[0], tuple | list | Mapping):
            return _from_item(model, item[0])  # ((a, b), y)
        return Batch(tuple(item[: max(1, len(_required_arguments(model)))]), {})
    raise InputError(
        f"a batch is a {type(item).__name__}, which is not understood. A batch is a tensor, a "
        "tuple (x, y), or a dict of the model's arguments."
    )


def _required_arguments(model: nn.Module) -> list[str]:
    return [
        name
        for name, p in inspect.signature(model.forward).parameters.items()
        if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]


def check_model(model: object) -> nn.Module:
    """The module to work on, or what is wrong with it."""
    if not isinstance(model, nn.Module):
        raise ModelError(
            f"model is a {type(model).__name__}. Pass an nn.Module (and the inputs second)."
        )
    model = same_module(model)
    for name, p in model.named_parameters():
        if isinstance(p, nn.parameter.UninitializedParameter):
            raise ModelError(
                f"{name} has no shape yet: a lazy layer. Run the model once on a batch first."
            )
        if p.is_inference():
            raise ModelError(
                f"{name} was made under torch.inference_mode, so it has no derivative. Build the "
                "model outside, or make a copy of it there."
            )
    return model


def check_batch(model: nn.Module, batch: Batch) -> None:
    """Refuse what cannot be measured before anything runs."""
    tensors = batch.tensors()
    if not tensors:
        raise InputError("the batch holds no tensor. Pass at least one tensor of inputs.")
    for tensor in tensors:
        if tensor.is_nested or tensor.layout is not torch.strided or tensor.is_complex():
            raise InputError(
                "the batch holds a sparse, nested or complex tensor. Pass dense real tensors."
            )
        if tensor.numel() == 0:
            raise InputError(
                f"the batch is empty: a tensor of shape {tuple(tensor.shape)} was given. "
                "Pass at least one example."
            )
        device = _device_of(model)
        if device is not None and tensor.device != device and tensor.ndim > 0:
            raise InputError(
                f"the input is on {tensor.device} and the model on {device}. "
                f"Move one of them: inputs.to({str(device)!r})."
            )
        if tensor.device.type == "meta":
            raise InputError("the input is on the meta device and holds no values. Pass real data.")
        if tensor.is_floating_point() and not _is_finite_or_mask(tensor):
            bad = int((~torch.isfinite(tensor)).sum())
            raise InputError(
                f"the input holds {bad} value(s) that are NaN or infinite, of {tensor.numel()}. "
                "Clean or normalise the data first."
            )
    if batch.size == 1:
        _refuse_batchnorm_of_one(model)


def _is_finite_or_mask(tensor: Tensor) -> bool:
    """Additive attention masks hold zeros and minus infinities."""
    low, high = (float(end) for end in tensor.detach().aminmax())
    if math.isfinite(low) and math.isfinite(high):
        return True
    return bool(((tensor == -torch.inf) | (tensor == 0)).all())


def _device_of(model: nn.Module) -> torch.device | None:
    """The model's device; None where it is spread over several and placement is its own affair."""
    devices = {p.device for p in model.parameters()}
    return devices.pop() if len(devices) == 1 else None


def _refuse_batchnorm_of_one(model: nn.Module) -> None:
    for name, module in model.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and uses_batch_statistics(module):
            raise InputError(
                f"{name or 'the model'} is a {type(module).__name__} in training mode and the "
                "batch has one example: batch statistics of one example are no statistics. Pass "
                "at least two examples (better the batch size of training), or call model.eval()."
            )


def uses_batch_statistics(module: nn.modules.batchnorm._BatchNorm) -> bool:
    return module.training or module.running_mean is None


def first_tensor(output: object) -> Tensor:
    """The network's output: the first floating tensor in whatever the model returned."""
    for tensor in _tensors_anywhere(output):
        if tensor.is_floating_point():
            return tensor
    raise NotDifferentiableError(
        f"the model returned {_describe(output)}, in which there is no floating-point tensor to "
        "differentiate. Return the logits instead, or pass output= a function that picks them."
    )


def _tensors_anywhere(output: object) -> list[Tensor]:
    if dataclasses.is_dataclass(output) and not isinstance(output, type):
        fields = dataclasses.fields(output)
        return [t for f in fields for t in _tensors_anywhere(getattr(output, f.name))]
    if isinstance(output, Mapping):
        return [t for value in output.values() for t in _tensors_anywhere(value)]
    if isinstance(output, tuple | list):
        return [t for value in output for t in _tensors_anywhere(value)]
    return [output] if isinstance(output, Tensor) else []


def _describe(output: object) -> str:
    if isinstance(output, Tensor):
        return f"a tensor of {output.dtype}"
    return f"a {type(output).__name__}"
