"""Measure J and K of every block of a network."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn.attention import SDPBackend, sdpa_kernel

from critinit._passage import Passage
from critinit._state import draw_seed, untouched
from critinit.apjn import JVP, VJP, Estimator, Exact, Probes
from critinit.apjn.probes import Noise
from critinit.chain._chain import Chain
from critinit.chain._cut import Blocks, Output
from critinit.chain._inputs import Batch, check_batch, check_model, first_tensor, read_batches
from critinit.chain._trace import find_and_walk
from critinit.chain._walk import DivergedError, LeakError
from critinit.errors import CritinitError, InputError, ModelError
from critinit.profile import Profile

Method = Literal["vjp", "jvp", "exact"]
Progress = Callable[[int, int], None]


def measure(
    model: nn.Module | Chain,
    inputs: object,
    blocks: Blocks = None,
    span: int = 1,
    probes: int = 1,
    method: Method = "vjp",
    generator: torch.Generator | None = None,
    *,
    noise: Noise = "rademacher",
    output: Output | None = None,
    progress: Progress | None = None,
) -> Profile:
    """Measure ``J^{l,l+1}``, ``K^l`` and the correlation of examples along the depth.

    The model runs as it is (training or evaluation mode, its own device and precision), once for
    each batch, and is left exactly as it was, as is all global state.

    Args:
        model: Any feed-forward network, or the `Chain` that `critinit.trace` found in it.
        inputs: A tensor; a tuple or dict of the model's arguments; or an iterable of batches, such
            as a DataLoader, over which is averaged. Of ``(x, y)`` pairs the targets are left out.
        blocks: Where the blocks end; see `critinit.trace`.
        span: Measure the non-overlapping ``J^{l,l+span}`` instead.
        probes: Random vectors for each J (N_v in the paper).
        method: ``"vjp"``, the paper's estimator; ``"jvp"``, the same in forward mode, without an
            autograd graph; ``"exact"``, the full Jacobian, slow.
        generator: The only source of randomness, and the only thing that changes. By default a
            fresh one with seed 0, so that the same call gives the same numbers.
        noise: ``"rademacher"`` probes, signs, which have the smaller variance; or ``"gaussian"``
            ones as in the paper.
        output: Picks the output tensor from what the model returns.
        progress: Called with how many blocks of a batch are done, and of how many.

    Raises:
        CritinitError: What was wrong and what to do. If the model broke in the middle, the
            error's ``profile`` holds the blocks before.

    >>> import torch, critinit
    >>> from torch import nn
    >>> torch.manual_seed(0)  # doctest: +ELLIPSIS
    <torch._C.Generator object at ...>
    >>> layers = [layer for _ in range(8) for layer in (nn.Linear(64, 64), nn.ReLU())]
    >>> profile = critinit.measure(nn.Sequential(*layers), torch.randn(16, 64))
    >>> profile.is_critical()
    False
    >>> bool(profile.apjn[1:].max() < 0.5)  # torch's default for ReLU makes gradients vanish
    True
    """
    generator = checked_generator(generator)
    estimator = _estimator(method, probes, generator, noise)
    _, profile = find_and_measure(
        model, inputs, blocks, span, estimator, generator, output, progress
    )
    return profile


def find_and_measure(
    model: nn.Module | Chain,
    inputs: object,
    blocks: Blocks,
    span: int,
    estimator: Estimator,
    generator: torch.Generator,
    output: Output | None,
    progress: Progress | None = None,
) -> tuple[Chain, Profile]:
    """`measure`, and the chain it found."""
    check_count("span", span)
    if isinstance(model, Chain) and not (blocks is None and output is None):
        raise InputError(
            "blocks= and output= were settled when the chain was traced. Pass them to "
            "critinit.trace, or pass the model instead of the chain."
        )
    chain = model if isinstance(model, Chain) else None
    module = check_model(model.model if isinstance(model, Chain) else model)
    found = _Measurement(estimator, span, progress)
    with untouched(module, draw_seed(generator)), _differentiation(estimator):
        first: Batch | None = None
        for batch in read_batches(module, inputs):
            check_batch(module, batch)
            first = first or batch
            _check_same_kind(batch, first)

            def add(found_chain: Chain, batch: Batch = batch) -> None:
                try:
                    found.add(found_chain.merge(span), batch)
                except LeakError as leak:
                    raise LeakError(leak.start * span, leak.stop * span) from None

            try:
                if chain is not None:
                    add(chain)
                    continue
            except (DivergedError, LeakError):
                if isinstance(model, Chain):
                    raise _other_calls(model) from None
            chain = find_and_walk(module, batch, blocks, output or first_tensor, add)
    assert chain is not None
    merged = chain.merge(span)

    def remeasure(start: int, stop: int) -> tuple[Tensor, Tensor]:
        cut = merged.cut(start, stop)
        _, between = find_and_measure(cut, inputs, None, 1, estimator, generator, None)
        return between.apjn[min(start, 1)], between.apjn_se[min(start, 1)]

    return merged, replace(found.profile(), _remeasure=remeasure)


def checked_generator(generator: torch.Generator | None) -> torch.Generator:
    """The given one, or a fresh one with seed 0."""
    if generator is None:
        return torch.Generator().manual_seed(0)
    if not isinstance(generator, torch.Generator):
        raise InputError(
            f"generator is a {type(generator).__name__}. Pass a torch.Generator: "
            "torch.Generator().manual_seed(0)."
        )
    return generator


def check_count(name: str, value: int) -> None:
    """Refuse what is not a whole number from 1 up."""
    if not isinstance(value, int) or value < 1:
        raise InputError(f"{name}={value!r}: a whole number of at least 1 is needed.")


def _estimator(method: str, probes: int, generator: torch.Generator, noise: Noise) -> Estimator:
    check_count("probes", probes)
    if noise not in ("gaussian", "rademacher"):
        raise InputError(f"noise={noise!r} is unknown. Use 'gaussian' or 'rademacher'.")
    drawn = Probes(probes, generator, noise)
    match method:
        case "vjp":
            return VJP(drawn)
        case "jvp":
            return JVP(drawn)
        case "exact":
            return Exact()
    raise InputError(f"method={method!r} is unknown. Use 'vjp', 'jvp' or 'exact'.")


@contextmanager
def _differentiation(estimator: Estimator) -> Iterator[None]:
    """Forward mode needs its own level, and an attention kernel that has a forward derivative."""
    if isinstance(estimator, JVP):
        with forward_ad.dual_level(), sdpa_kernel(SDPBackend.MATH), torch.no_grad():
            yield
    else:
        yield


class _Measurement:
    """Gathers what every batch shows, block by block."""

    def __init__(self, estimator: Estimator, span: int, progress: Progress | None) -> None:
        self.estimator = estimator
        self.span = span
        self.progress = progress or (lambda done, total: None)
        self.sizes: list[int] = []
        self.seen: list[Passage] = []
        self.chain: Chain | None = None

    def add(self, chain: Chain, batch: Batch) -> None:
        """Measure one batch. After an error, what was measured before hangs on it."""
        passages: list[Passage] = []
        try:
            for _ in range(self.estimator.walks):
                report = partial(self._report, len(passages), len(chain))
                passages.append(Passage(chain, self.estimator, batch.size, report))
                chain.walk(batch, passages[-1])
        except CritinitError as error:
            if not self.seen and passages[0].contributions:
                self._keep(chain, batch, passages[0])
            if self.seen:
                error.profile = self.profile()
            raise
        if self.chain is not None and chain.names != self.chain.names:
            mismatch = InputError(
                f"this batch runs through {len(chain)} blocks, the first one through "
                f"{len(self.chain)}: they cannot be averaged. Measure them one by one."
            )
            mismatch.profile = self.profile()
            raise mismatch
        self._keep(chain, batch, Passage.join(passages))

    def _report(self, walks: int, blocks: int, done: int) -> None:
        self.progress(walks * blocks + done, self.estimator.walks * blocks)

    def _keep(self, chain: Chain, batch: Batch, passage: Passage) -> None:
        self.chain = chain
        self.sizes.append(batch.size)
        self.seen.append(passage)

    def profile(self) -> Profile:
        assert self.chain is not None
        blocks = len(self.seen[0].contributions)
        j = torch.stack([p.means() for p in self.seen])
        within = torch.stack([p.standard_errors() for p in self.seen])
        return Profile(
            names=self.chain.names[:blocks],
            apjn=j.mean(0),
            apjn_se=_pooled_error(j, within),
            kernel=_mean([p.kernel[: blocks + 1] for p in self.seen]),
            correlation=_mean([p.correlation[: blocks + 1] for p in self.seen]),
            model=type(self.chain.model).__name__,
            method=type(self.estimator).__name__.lower(),
            span=self.span,
            probes=self.seen[0].contributions[0].shape[0],
            batches=len(self.seen),
            batch_size=self.sizes[0],
        )


def _pooled_error(j: Tensor, within: Tensor) -> Tensor:
    """The larger of what the spread within batches and between them says."""
    batches = j.shape[0]
    pooled = within.square().sum(0).sqrt() / batches
    if batches == 1:
        return pooled
    return torch.fmax(pooled, j.std(0) / math.sqrt(batches))


def _mean(rows: list[list[float]]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64).mean(0)


def _check_same_kind(batch: Batch, first: Batch) -> None:
    """Of a list ``[x, y]``, ``y`` is read as another batch: say so."""
    kinds, wanted = ([t.dtype.is_floating_point for t in b.tensors()] for b in (batch, first))
    if kinds != wanted:
        raise InputError(
            "the batches hold different kinds of tensors. A list is read as several batches: for "
            "several arguments of one call pass a tuple, for (x, y) of a loader just x."
        )


def _other_calls(chain: Chain) -> ModelError:
    return ModelError(
        f"{type(chain.model).__name__} makes other calls on this batch than when its chain was "
        "traced. Trace it again with such a batch, or pass the model itself."
    )
