"""The base: draw the weights afresh, so that tuning starts from what a multiplier can move."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd
from torch.nn.parameter import is_lazy

from critinit._parametrized import originals, parametrizations, unparametrized, values_of, write
from critinit._state import all_or_nothing, draw_seed, module_state, untouched
from critinit.chain._calls import same_module
from critinit.chain._partition import NORMALIZATIONS
from critinit.errors import InputError, ModelError, NotFiniteError
from critinit.keep import check_plain
from critinit.measurement import checked_generator

Base = (
    Literal["kaiming", "orthogonal", "default"] | Callable[[str, Tensor, torch.Generator], object]
)
Kind = Literal["weight", "bias", "scale", "shift"]

_GAIN = math.sqrt(2)
_EMBEDDINGS = (nn.Embedding, nn.EmbeddingBag)
_WEIGHT_NAME = re.compile(r"weight(?!_g$)|kernel|proj|^w\d*(_|$)", re.IGNORECASE)
_SCALE_NAME = re.compile(r"gamma|scale|gain|alpha|lambda|gate$|resweight|^ls\d*$")
_TINY = 0.1  # the largest initial value that papers give to LayerScale


def reset_(
    model: nn.Module,
    base: Base = "kaiming",
    *,
    bias_std: float | None = 0.1,
    ones: bool = True,
    generator: torch.Generator | None = None,
) -> nn.Module:
    """Draw the weights of ``model`` afresh, in place, and return it: the start for `tune_`.

    Tuning multiplies, so it cannot move a zero. Biases therefore get a variance (GELU has no
    critical point without one), and zero-initialised heads and residual branches are opened. Any
    exception, Ctrl-C included, leaves the model as it was.

    * *Weights* are what has two dimensions or more and belongs to a layer, or is a bare parameter
      whose name says so (``weight``, ``kernel``, ``proj``, ``w1``, …). A bare one is read as
      `torch.nn.Linear` reads its own, outputs first; tuning takes out the factor if it is not so.
    * *Biases* are the vectors called bias beside a weight.
    * *Scales* are γ of torch's normalizations, and bare parameters named like LayerScale
      (``gamma``, ``ls1``, ``layer_scale``, ``gain``, …) that have one value throughout, of at most
      0.1.
    * All else stays as it is: position embeddings, class tokens, tables of relative positions,
      temperatures, PReLU slopes; they close no path.

    Frozen parameters (fixed filters, a trained backbone) stay as they are, and so do modes,
    ``requires_grad``, ``.grad``, buffers and global random states. A tied weight is drawn once, as
    the layer's rather than the embedding's. Of a parametrized weight, what the layer uses is drawn;
    the vectors and matrices that ``spectral_norm`` and ``orthogonal`` keep of it in buffers follow.

    Args:
        model: Any network; give a submodule to draw only that.
        base: How weights are drawn.
            ``"kaiming"``: normal with variance 2/fan_in (gain √2) for every layer. fan_in is the
            number of terms in each output: of one group in a convolution, and on average over
            the stride in a transposed one.
            ``"orthogonal"``: each matrix semi-orthogonal, of gain 1; convolutions as the matrix
            (outputs × fan_in) of each group; stacked matrices (attention's q, k, v; the gates of
            recurrent layers) one by one.
            ``"default"``: by each module's own ``reset_parameters``; a module without one keeps
            its weights.
            Or a function of name, tensor and generator that fills the tensor in place; it holds
            the present weight, in single precision at least, on the generator's device.
            Embeddings have one term in each output and no activation before them: by all bases
            but a function they are drawn from N(0, 1), as by torch.
        bias_std: Biases are drawn from ``N(0, bias_std²)``. None leaves them to the base: the
            module's own for ``"default"``, else as they are.
        ones: Set scales to one, and β of normalizations to zero. False leaves them to the base.
        generator: The only source of randomness; by default a fresh one with seed 0.

    >>> import torch, critinit
    >>> from critinit.base import reset_
    >>> from critinit.models import mlp
    >>> _ = torch.manual_seed(0)
    >>> model = reset_(mlp(256, 8, inputs=64), bias_std=0)
    >>> bool(critinit.measure(model, torch.randn(64, 64)).apjn[1:].min() > 0.7)  # gain √2 is ReLU's
    True
    """
    _check(base, bias_std)
    if not isinstance(model, nn.Module):
        raise ModelError(f"model is a {type(model).__name__}. Pass an nn.Module.")
    module = same_module(model)
    _refuse_lazy(module)
    check_plain(module, "reset_")
    generator = checked_generator(generator)
    frozen = {id(p) for p in module.parameters() if not p.requires_grad}
    with all_or_nothing(module), untouched(module, draw_seed(generator)), torch.no_grad():
        if base == "default":
            _reset_modules(module, frozen)
        slots = list(_slots(module, frozen))
        _refuse_unknown(base, slots)
        for slot in slots:
            if slot.kind == "weight":
                _draw_weight(slot, base, generator)
            elif slot.kind == "bias" and bias_std is not None:
                noise = torch.randn(slot.value.shape, generator=generator, device=generator.device)
                slot.write(noise * bias_std)
            elif ones and slot.kind in ("scale", "shift"):
                slot.write(torch.full_like(slot.value, slot.kind == "scale"))
    return model


def _check(base: object, bias_std: float | None) -> None:
    if not callable(base) and base not in ("kaiming", "orthogonal", "default"):
        raise InputError(
            f"base={base!r} is unknown. Use 'kaiming', 'orthogonal', 'default', or a function of "
            "name, tensor and generator that fills the tensor in place."
        )
    if bias_std is not None and not 0 <= bias_std < math.inf:
        raise InputError(
            f"bias_std={bias_std}: a standard deviation is a number from 0 up. Pass None to leave "
            "the biases to the base."
        )


def _refuse_unknown(base: Base, slots: list[_Slot]) -> None:
    if base != "default" and slots and not any(slot.kind for slot in slots):
        raise ModelError(
            f"none of the parameters, such as {slots[0].name}, is known for "
            "a weight: bare ones are told by their names (weight, kernel, proj, w1, …). Rename "
            "them, or draw them yourself and give the model to tune_ alone."
        )


def _refuse_lazy(model: nn.Module) -> None:
    for name, parameter in model.named_parameters():
        if is_lazy(parameter) or parameter.is_meta:
            raise ModelError(
                f"{name} has no values yet: it is a lazy layer's or on the meta device. Run the "
                "model once on a batch, or move it by to_empty(), first."
            )


@dataclass(frozen=True)
class _Slot:
    """A parameter at the place where its module uses it.

    ``value`` is the parameter, or what a parametrization makes of it.
    """

    name: str
    module: nn.Module
    key: str
    value: Tensor
    kind: Kind | None

    def write(self, value: Tensor) -> None:
        write(self.module, self.key, value.to(self.value))


def _slots(model: nn.Module, frozen: set[int]) -> Iterator[_Slot]:
    """Every other parameter once; embeddings last, so that a tied weight is that of the layer."""
    modules = [(n, m) for n, m in model.named_modules() if "parametrizations" not in n.split(".")]
    seen = set(frozen)
    for prefix, module in sorted(modules, key=lambda pair: isinstance(pair[1], _EMBEDDINGS)):
        values = values_of(module)
        for key, kind in _kinds(module, values).items():
            identity = id(originals(module, key)[0])
            if identity not in seen:
                seen.add(identity)
                name = f"{prefix}.{key}" if prefix else key
                yield _Slot(name, module, key, values[key], kind)


def _kinds(module: nn.Module, values: dict[str, Tensor]) -> dict[str, Kind | None]:
    if isinstance(module, NORMALIZATIONS):
        known: dict[str, Kind] = {"weight": "scale", "bias": "shift"}
        return {key: known.get(key) for key in values}
    has_weight = any(_is_weight(key, value) for key, value in values.items())
    kinds: dict[str, Kind | None] = {}
    for key, value in values.items():
        if _is_weight(key, value):
            kinds[key] = "weight"
        elif has_weight and value.ndim == 1 and "bias" in key:
            kinds[key] = "bias"
        else:
            kinds[key] = "scale" if _is_tiny_scale(key, value) else None
    return kinds


def _is_weight(key: str, value: Tensor) -> bool:
    return value.ndim > 1 and _WEIGHT_NAME.search(key) is not None


def _is_tiny_scale(key: str, value: Tensor) -> bool:
    if not _SCALE_NAME.search(key) or value.numel() == 0:
        return False
    low, high = value.aminmax()
    return bool(low == high) and float(high.abs()) <= _TINY + 1e-3  # 0.1 in bfloat16 is 0.1001


def _draw_weight(slot: _Slot, base: Base, generator: torch.Generator) -> None:
    is_embedding = isinstance(slot.module, _EMBEDDINGS)
    if base == "default" and not is_embedding:
        return
    value = slot.value.to(
        device=generator.device,
        dtype=torch.promote_types(slot.value.dtype, torch.float32),
        memory_format=torch.contiguous_format,
    )
    if callable(base):
        base(slot.name, value, generator)
    elif is_embedding:
        value.normal_(generator=generator)
    elif base == "kaiming":
        value.normal_(std=_GAIN / math.sqrt(_fan_in(slot.module, value)), generator=generator)
    else:
        for matrix in value.view(_stacked(slot.module, len(value)), -1, value[0].numel()):
            nn.init.orthogonal_(matrix, generator=generator)
    if isinstance(slot.module, _EMBEDDINGS) and slot.module.padding_idx is not None:
        value[slot.module.padding_idx] = 0
    if not bool(torch.isfinite(value).all()):
        raise NotFiniteError(f"base drew NaN or infinity for {slot.name}. The model is as it was.")
    slot.write(value)


def _fan_in(module: nn.Module, weight: Tensor) -> float:
    if isinstance(module, _ConvTransposeNd):
        taps = math.prod(k / s for k, s in zip(module.kernel_size, module.stride, strict=True))
        return len(weight) / module.groups * taps
    return weight[0].numel()


def _stacked(module: nn.Module, rows: int) -> int:
    """How many matrices lie below each other in a weight: groups, gates, or q, k and v."""
    if isinstance(module, _ConvNd):
        return module.groups
    if isinstance(module, nn.MultiheadAttention):
        return int(rows // module.embed_dim)
    if isinstance(module, nn.RNNBase | nn.RNNCellBase):
        return max(1, rows // module.hidden_size)
    return 1


def _reset_modules(model: nn.Module, frozen: set[int]) -> None:
    """Each module's own ``reset_parameters``, inner ones first; embeddings are drawn later."""
    kept = [(p, p.clone()) for p in model.parameters() if id(p) in frozen]
    for module in reversed(list(model.modules())):
        if isinstance(module, _EMBEDDINGS) or _own_reset(module) is None:
            continue
        with module_state(module):  # BatchNorm resets its buffers, too
            plain = unparametrized(module)
            reset = _own_reset(plain)
            assert reset is not None
            reset()
        for key in parametrizations(module):
            if id(originals(module, key)[0]) not in frozen:
                write(module, key, plain.get_parameter(key).detach())
    for parameter, value in kept:
        parameter.copy_(value)


def _own_reset(module: nn.Module) -> Callable[[], object] | None:
    """`torch.nn.MultiheadAttention` and `torch.nn.Transformer` have it under the second name."""
    for name in ("reset_parameters", "_reset_parameters"):
        reset: object = getattr(module, name, None)
        if callable(reset):
            return reset
    return None
