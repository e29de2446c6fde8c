"""What theory says about a given network: its layers recognised, its σ_w and σ_b read off."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from torch import Tensor, nn

from critinit.models import PreNormBlock, ResBlock, ResMLP
from critinit.models.resmlp import Affine
from critinit.theory._names import activation
from critinit.theory.activations import Activation
from critinit.theory.bn_mlp import NormalizedActivation
from critinit.theory.errors import ActivationError, TheoryError
from critinit.theory.layers import (
    AverageOfPatches,
    BetweenPatches,
    Chain,
    Layer,
    LayerNorm,
    Linear,
    Pointwise,
    Residual,
    Scale,
    propagate,
)
from critinit.theory.prediction import Prediction

_Named = tuple[str, nn.Module]


def predict(
    model: nn.Module,
    *,
    kernel: float = 1.0,
    correlation: float = 0.0,
    batch_size: int | None = None,
) -> Prediction:
    """J, K and the correlation of every block of ``model``: what ``critinit.measure`` should find.

    For ``critinit.models.mlp``, ``bn_mlp``, ``ln_mlp`` and ``resmlp``, and for any `nn.Sequential`
    of linear layers, activations, BatchNorm, LayerNorm and RMSNorm, with one value for all of a
    norm's γ. The blocks are those of ``critinit.trace``. Each layer's σ_w² is fan_in times the mean
    square of its weights as they are now, tuned ones included, and σ_b² that of its biases.

    Args:
        model: The network, in the mode it is measured in.
        kernel: ``K^0``, the mean square of the inputs: ``profile.kernel[0]``.
        correlation: The mean cosine of two inputs: ``profile.correlation[0]``.
        batch_size: For BatchNorm; None is infinite.

    >>> import torch
    >>> from critinit.models import bn_mlp
    >>> _ = torch.manual_seed(0)
    >>> predict(bn_mlp(400, 3, mu=0, sigma_w=1.3)).apjn.round(1).tolist()
    [1.7, 0.5, 1.5, 1.5]
    """
    if not isinstance(model, nn.Module):
        raise TheoryError(f"model is a {type(model).__name__}: pass an nn.Module.")
    recognised = _Recognition(batch_size)
    if isinstance(model, ResMLP):
        blocks = recognised.resmlp(model, kernel)
    else:
        blocks = recognised.sequence(deque(_parts("", model)))
    if not blocks:
        raise _unknown("", model)
    _check_gaussian(blocks)
    return propagate(blocks, kernel, correlation)


_NORMALIZATIONS = (nn.BatchNorm1d, nn.LayerNorm, nn.RMSNorm)
_IDENTITIES = (nn.Identity, nn.Flatten, nn.Unflatten, nn.Sequential)  # the last one if empty


def _parts(name: str, model: nn.Module) -> Iterator[_Named]:
    """The layers of nested ``nn.Sequential``, in order."""
    if not isinstance(model, nn.Sequential) or len(model) == 0:
        yield name, model
        return
    for child, module in model._modules.items():  # one that stands there twice is called twice
        if module is not None:
            yield from _parts(f"{name}.{child}".lstrip("."), module)


@dataclass(frozen=True)
class _Recognition:
    """From modules to layer maps, for batches of one size."""

    batch_size: int | None

    def sequence(self, parts: deque[_Named]) -> list[Layer]:
        """The blocks that `critinit.trace` finds: see ``docs/blocks.md`` for the rule."""
        blocks: list[list[Layer]] = []
        pending: list[Layer] = []
        while parts:
            name, module = parts.popleft()
            if isinstance(module, PreNormBlock | ResBlock):
                if blocks:
                    blocks[-1] += pending
                    pending = []
                blocks.append([*pending, self.residual_block(name, module)])
                pending = []
            elif isinstance(module, nn.Linear):
                blocks.append([*pending, _linear(module)])
                pending = []
                while parts and isinstance(parts[0][1], _NORMALIZATIONS):
                    blocks[-1] += self.elementwise(*parts.popleft(), parts)
                    while parts and _is_elementwise(parts[0][1]):
                        blocks[-1] += self.elementwise(*parts.popleft(), parts)
            else:
                pending += self.elementwise(name, module, parts)
        if blocks:
            blocks[-1] += pending
        return [Chain(tuple(block)) for block in blocks]

    def resmlp(self, model: ResMLP, kernel: float) -> list[Layer]:
        """Embedding, blocks, and the average over patches with the head.

        What the average leaves of K depends on how different patches are correlated. That follows
        the recursion of two examples, but for the layers across patches, whose rows are
        independent. The patches of the input are taken to be uncorrelated.
        """
        stem = _linear(model.stem.proj)
        named = list(_parts("blocks", model.blocks))
        blocks = [self.residual_block(name, block) for name, block in named]
        apart = [self.residual_block(name, block, BetweenPatches) for name, block in named]
        at_end = propagate([stem, *apart], kernel)
        between = float(at_end.kernel[-1] * at_end.correlation[-1])
        average = AverageOfPatches(_patches(model), between)
        norm = self.elementwise("norm", model.norm, deque())
        return [stem, *blocks, Chain((*norm, average, _linear(model.head)))]

    def elementwise(self, name: str, module: nn.Module, behind: deque[_Named]) -> list[Layer]:
        """What has no weights of its own. BatchNorm takes the activation ``behind`` it along."""
        if _is_identity(module):
            return []
        if isinstance(module, nn.BatchNorm1d):
            phi = _activation_of(behind[0][1]) if behind else None
            if phi is None:
                phi = activation("linear")
            else:
                behind.popleft()
            return [self._normalized(name, module, phi)]
        if isinstance(module, nn.LayerNorm | nn.RMSNorm):
            gamma = _only_value(name, module.weight, getattr(module, "bias", None))
            return [LayerNorm(centered=isinstance(module, nn.LayerNorm)), Scale(gamma)]
        if isinstance(module, Affine):
            return [Scale(_only_value(name, module.alpha, module.beta))]
        phi = _activation_of(module)
        if phi is None:
            raise _unknown(name, module)
        return [Pointwise(phi)]

    def residual_block(self, name: str, block: nn.Module, across: type[Linear] = Linear) -> Layer:
        """One of the built-in networks."""
        if isinstance(block, PreNormBlock):
            return self._pre_norm_block(name, block)
        if not isinstance(block, ResBlock):
            raise _unknown(name, block)
        tokens = (
            *self.elementwise(f"{name}.norm1", block.norm1, deque()),
            _linear(block.linear_tokens, across),
        )
        mlp = block.mlp_channels
        channels = (
            *self.elementwise(f"{name}.norm2", block.norm2, deque()),
            _linear(mlp.fc1),
            *self.elementwise(f"{name}.mlp_channels.act", mlp.act, deque()),
            _linear(mlp.fc2),
        )
        return Chain(
            (
                Residual(tokens, _only_value(f"{name}.ls1", block.ls1), block.mu),
                Residual(channels, _only_value(f"{name}.ls2", block.ls2), block.mu),
            )
        )

    def _pre_norm_block(self, name: str, block: PreNormBlock) -> Layer:
        rest = deque([(f"{name}.activation", block.activation)])
        branch = self.elementwise(f"{name}.norm", block.norm, rest)
        while rest:
            branch += self.elementwise(*rest.popleft(), rest)
        return Residual((*branch, _linear(block.linear)), skip=block.mu)

    def _normalized(self, name: str, norm: nn.BatchNorm1d, phi: Activation) -> Layer:
        if not (norm.training or norm.running_mean is None):
            raise TheoryError(
                f"{name} is BatchNorm in evaluation mode, with statistics of its own. Theory is "
                "about batch statistics: call model.train()."
            )
        gamma = _only_value(name, norm.weight, norm.bias)
        scaled = phi if gamma == 1 else activation(_scaled(phi.function, gamma))
        return NormalizedActivation(scaled, self.batch_size)


def _patches(model: ResMLP) -> int:
    tokens = next(m.linear_tokens for m in model.blocks if isinstance(m, ResBlock))
    return tokens.in_features


def _check_gaussian(layers: Iterable[Layer], known: bool = True) -> bool:
    """Refuse an activation on what is no Gaussian; returns whether the last output is one."""
    for layer in layers:
        if isinstance(layer, Chain):
            known = _check_gaussian(layer.layers, known)
        elif isinstance(layer, Pointwise | NormalizedActivation):
            if not known:
                raise TheoryError(
                    "an activation or BatchNorm acts on the output of another activation, which is "
                    "not Gaussian: put a linear layer between, or make one activation of the two."
                )
            known = False
        elif isinstance(layer, Linear):
            known = True
        elif isinstance(layer, Residual):
            _check_gaussian(layer.branch, known)
    return known


def _scaled(phi: Callable[..., object], gamma: float) -> Callable[..., object]:
    return lambda u: phi(gamma * u)


def _linear(layer: nn.Linear | nn.Conv2d, kind: type[Linear] = Linear) -> Linear:
    """A convolution must see every pixel once, like the embedding of patches."""
    weight, bias = layer.weight.detach().double(), layer.bias
    sigma_w = (weight[0].numel() * weight.square().mean()).sqrt()
    sigma_b = 0.0 if bias is None else bias.detach().double().square().mean().sqrt()
    return kind(float(sigma_w), float(sigma_b))


def _only_value(name: str, scale: Tensor | None, shift: Tensor | None = None) -> float:
    """The one value of a γ, α or LayerScale, whose β must be zero."""
    if scale is None:
        return 1.0
    value = scale.detach().flatten()
    if bool((value != value[0]).any()) or (shift is not None and bool(shift.any())):
        raise TheoryError(
            f"{name} has different values for different features, or a shift: theory knows norms "
            "and scales as they are at initialization, one value for all and no shift."
        )
    return float(value[0])


def _activation_of(module: nn.Module) -> Activation | None:
    """Of a module without parameters that acts element by element; else None."""
    known = (*_IDENTITIES, *_NORMALIZATIONS, nn.Linear, nn.Dropout)
    if isinstance(module, known) or any(True for _ in module.parameters()):
        return None
    try:
        return activation(module)
    except ActivationError:
        return None


def _is_identity(module: nn.Module) -> bool:
    off = isinstance(module, nn.Dropout) and (module.p == 0 or not module.training)
    return off or isinstance(module, _IDENTITIES)


def _is_elementwise(module: nn.Module) -> bool:
    return _is_identity(module) or _activation_of(module) is not None


def _unknown(name: str, module: nn.Module) -> TheoryError:
    place = f"{name} is a" if name else "the model is a"
    return TheoryError(
        f"{place} {type(module).__name__}, for which there is no layer map. Known are the built-in "
        "perceptrons and ResMLP, and nn.Sequential of linear layers, activations, BatchNorm1d, "
        "LayerNorm and RMSNorm (no overlapping convolutions, pooling or active dropout). Compose "
        "critinit.theory.layers yourself."
    )
