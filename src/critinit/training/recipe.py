"""What a training is: a value that reads like the paper's appendix."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import product
from typing import Any, Literal, get_args, get_origin, get_type_hints

from critinit.keep import Keep
from critinit.models._options import suggestion
from critinit.training.errors import TrainingError

Precision = Literal["no", "fp16", "bf16"]


@dataclass(frozen=True)
class Tuning:
    """How AutoInit is run before the training.

    Attributes:
        lam: λ of the Jacobian-kernel loss.
        solver: ``"sgd"`` is Algorithm 1, ``"sweep"`` critinit's own.
        eta: Learning rate η of Algorithm 1.
        steps: Its steps, each on the next batch.
        batch: |B|.
        probes: N_v.
        scale: Which parameters get a multiplier: all, or those of BatchNorm.
        keep: ``"fold"`` the multipliers into the weights, or keep them ``"frozen"`` beside.
        bias_std: Of the biases in the Kaiming draw that is tuned.
    """

    lam: float
    eta: float
    steps: int
    batch: int
    probes: int = 1
    solver: Literal["sgd", "sweep"] = "sgd"
    scale: Literal["all", "batchnorm"] = "all"
    keep: Keep = "fold"
    bias_std: float = 0.1


@dataclass(frozen=True)
class Recipe:
    """A training, but for its seed and initialization.

    Attributes:
        name: It is found by.
        about: Where it is from, and what is different there.
        model: A built-in model, with its ``options``.
        data: ``"cifar10"`` or ``"folder:PATH"`` with ``train`` and ``val`` in it.
        image: Height and width of the images.
        tuning: AutoInit's settings.
        epochs: Of the training. With repeated augmentation an epoch has as many views as the
            training set has images, but of fewer images.
        batch: |B|, over all processes together.
        optimizer: timm's name of it.
        lr: Learning rate.
        weight_decay: Of weights; vectors have none, as is timm's default.
        momentum: Of SGD.
        schedule: ``"step"`` multiplies the learning rate by ``drop`` after the epochs ``drops``;
            ``"cosine"`` lets it go to 10⁻⁵.
        drops: Epochs.
        drop: A factor.
        warmup: Epochs in which the learning rate rises from 10⁻⁶.
        randaugment: timm's notation of RandAugment; empty for none.
        flip: Probability of a horizontal flip.
        crop: Train on random parts, resized; for ImageNet.
        erase: Probability of random erasing.
        mixup: α of Mixup; 0 for none.
        cutmix: α of CutMix; 0 for none.
        smoothing: Of labels.
        repeats: How often an image is in a batch, each time augmented differently.
        examples: Of the training set, use that many images; 0 for all.
        precision: Of the forward and backward pass.
        lrs: Learning rates of the grid.
        weight_decays: Weight decays of the grid.
    """

    name: str
    about: str
    model: str
    data: str
    image: int
    tuning: Tuning
    epochs: int
    batch: int
    optimizer: str
    lr: float
    weight_decay: float
    options: Mapping[str, Any] = field(default_factory=dict)
    momentum: float = 0.9
    schedule: Literal["step", "cosine"] = "step"
    drops: tuple[int, ...] = ()
    drop: float = 0.1
    warmup: int = 0
    randaugment: str = ""
    flip: float = 0.5
    crop: bool = False
    erase: float = 0.0
    mixup: float = 0.0
    cutmix: float = 0.0
    smoothing: float = 0.0
    repeats: int = 1
    examples: int = 0
    precision: Precision = "no"
    lrs: tuple[float, ...] = ()
    weight_decays: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        _check_numbers(self)
        _check_numbers(self.tuning)
        if self.batch % 2 and (self.mixup or self.cutmix):
            raise TrainingError(f"batch={self.batch}: Mixup pairs images, so give an even number.")

    def grid(self) -> Iterator[Recipe]:
        """This recipe at every learning rate and weight decay of its grid."""
        for lr, decay in product(
            self.lrs or (self.lr,), self.weight_decays or (self.weight_decay,)
        ):
            yield replace(self, lr=lr, weight_decay=decay)

    def with_settings(self, settings: Mapping[str, str]) -> Recipe:
        """Some fields changed, given as text; those of the tuning as ``tuning.steps``.

        >>> from critinit.training import find
        >>> find("resmlp-s12-cifar10").with_settings({"lr": "0.005", "tuning.steps": "10"}).lr
        0.005
        """
        own: dict[str, Any] = {}
        tuning: dict[str, Any] = {}
        for key, text in settings.items():
            group, _, last = key.rpartition(".")
            if group not in ("", "tuning") or key in ("name", "about", "tuning", "options"):
                raise _unknown(key)
            kind = Tuning if group else Recipe
            (tuning if group else own)[last] = _parsed(key, last, text, kind)
        return replace(self, tuning=replace(self.tuning, **tuning), **own)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def _unknown(key: str) -> TrainingError:
    own = [f.name for f in fields(Recipe) if f.name not in ("name", "about", "tuning", "options")]
    known = own + [f"tuning.{f.name}" for f in fields(Tuning)]
    return TrainingError(f"a recipe has no {key!r} to set. {suggestion(key, known)}")


def _parsed(key: str, field_name: str, text: str, owner: type[Recipe | Tuning]) -> Any:
    kind = get_type_hints(owner).get(field_name)
    if kind is None:
        raise _unknown(key)
    try:
        if get_origin(kind) is tuple:
            return tuple(get_args(kind)[0](part) for part in text.split(",") if part)
        if kind is bool:
            return {"true": True, "false": False}[text.lower()]
        if get_origin(kind) is Literal:
            return dict(zip(get_args(kind), get_args(kind), strict=True))[text]
        return kind(text)
    except (ValueError, KeyError) as error:
        raise TrainingError(f"{key}={text}: give {_wanted(kind)}.") from error


def _wanted(kind: Any) -> str:
    if get_origin(kind) is tuple:
        return f"{_wanted(get_args(kind)[0])}, or several with commas between"
    if get_origin(kind) is Literal:
        return " or ".join(map(str, get_args(kind)))
    return {int: "a whole number", float: "a number", bool: "true or false"}.get(kind, "text")


def _check_numbers(values: Recipe | Tuning) -> None:
    """Everything is finite and not negative; counts that must be there are."""
    for f in fields(values):
        value = getattr(values, f.name)
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, int | float) and not 0 <= number < math.inf:
                raise TrainingError(f"{f.name}={number}: give a finite number from 0 up.")
        if f.name in ("epochs", "batch", "repeats", "image", "probes") and value < 1:
            raise TrainingError(f"{f.name}={value}: give a whole number from 1 up.")
