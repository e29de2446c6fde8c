"""How large a batch must be: J against |B|."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from critinit._state import with_own_randomness
from critinit.chain import trace
from critinit.chain._calls import same_module
from critinit.chain._cut import Blocks, Output
from critinit.chain._inputs import Batch, read_batches, uses_batch_statistics
from critinit.errors import InputError
from critinit.measurement import Progress, checked_generator, measure
from critinit.profile import Profile

_MOST_BATCHES = 32  # of one size
_SIGMAS = 2.0


@dataclass(frozen=True, eq=False)
class BatchScan:
    """J measured at several batch sizes.

    Attributes:
        sizes: The batch sizes, from the smallest.
        profiles: What was measured at each, averaged over batches.
        tol: Two J agree if their ``log J`` differ by no more, standard errors allowed for.
        left_out: Sizes that could not be measured, and why.
    """

    sizes: list[int]
    profiles: list[Profile]
    tol: float
    left_out: dict[int, str]

    @property
    def gap(self) -> Tensor:
        """``log J`` less that at the largest size: sizes × blocks, the input block left out."""
        logs = torch.stack([p.log_apjn[p.is_hidden] for p in self.profiles])
        return torch.where(logs == logs[-1], 0.0, logs - logs[-1])  # 0 where no gradient passes

    @property
    def gap_se(self) -> Tensor:
        """The standard error of `gap`; zero where it is not known."""
        relative = [(p.apjn_se / p.apjn)[p.is_hidden] for p in self.profiles]
        squares = torch.stack(relative).nan_to_num(0.0).square()
        errors = (squares + squares[-1]).sqrt()
        errors[-1] = 0.0
        return errors

    @property
    def agrees(self) -> list[bool]:
        """Whether J at each size is that at the largest, in every block."""
        excess: Tensor = self.gap.abs() - _SIGMAS * self.gap_se
        return [bool(e) for e in (excess <= self.tol).all(1)]

    @property
    def recommended(self) -> int:
        """The smallest size that agrees with the largest, and with it all sizes between."""
        agrees = self.agrees
        return next(s for i, s in enumerate(self.sizes) if all(agrees[i:]))

    @property
    def examples(self) -> list[int]:
        """What each size has cost."""
        return [p.batches * p.batch_size for p in self.profiles]

    def verdict(self) -> str:
        """One sentence: which size to use, and why."""
        best, largest = self.recommended, self.sizes[-1]
        if best == largest:
            reason = f"J still changes from {self.sizes[-2]} on; best is the batch size of training"
        elif best == self.sizes[0]:
            reason = f"log J depends on |B| by no more than {self.tol:g} in any block"
        else:
            reason = f"log J is that of |B| = {largest} within {self.tol:g} in every block"
        noise = float(self.gap_se[min(self.sizes.index(best), len(self.sizes) - 2)].max())
        doubt = f" (but ± {noise:.2g}: more probes would tell)" if noise > self.tol else ""
        return f"use |B| = {best}: {reason}{doubt}"

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings, ready for JSON."""
        return {
            "sizes": list(self.sizes),
            "recommended": self.recommended,
            "agrees": self.agrees,
            "tol": self.tol,
            "examples": self.examples,
            "left_out": {str(size): why for size, why in self.left_out.items()},
            "profiles": [p.to_dict() for p in self.profiles],
        }

    def __str__(self) -> str:
        first = self.profiles[0]
        names = [n for n, hidden in zip(first.names, first.is_hidden, strict=True) if hidden]
        lines = [
            f"{first.model}: J against |B|, compared with |B| = {self.sizes[-1]}, tol {self.tol:g}",
            f"{'|B|':>6} {'examples':>9} {'|Δ log J|':>10} {'±':>8}  {'agrees':<6}  worst block",
        ]
        for row, (size, examples, agrees) in enumerate(
            zip(self.sizes, self.examples, self.agrees, strict=True)
        ):
            worst = int(self.gap[row].abs().argmax())
            gap, se = float(self.gap[row, worst].abs()), float(self.gap_se[row, worst])
            lines.append(
                f"{size:>6} {examples:>9} {gap:>10.3g} {se:>8.2g}  "
                f"{'yes' if agrees else 'no':<6}  {names[worst] if size < self.sizes[-1] else '-'}"
            )
        lines += [f"{size:>6} left out: {why}" for size, why in self.left_out.items()]
        return "\n".join([*lines, self.verdict()])


def batch_scan(
    model: nn.Module,
    inputs: object,
    sizes: Sequence[int] = (2, 4, 8, 16, 32, 64, 128, 256),
    *,
    tol: float = 0.05,
    probes: int = 1,
    generator: torch.Generator | None = None,
    blocks: Blocks = None,
    output: Output | None = None,
    progress: Progress | None = None,
) -> BatchScan:
    """Measure J at several batch sizes, and find the smallest that is large enough.

    With BatchNorm J depends on |B|, and tuning wants the batch size of training, or a smaller one
    at which J is the same already; without BatchNorm every size will do (the paper's "General
    Strategy" and its figure of J against |B|). The model stays exactly as it was.

    Args:
        model: Any feed-forward network, in the mode it will be trained in.
        inputs: As for `critinit.measure`, with the examples along the first dimension. Batches
            are joined until there are as many examples as the largest size, and cut anew.
        sizes: The batch sizes to compare. Those larger than the data are left out.
        tol: How far ``log J`` may be off, in every block but the input block, beyond two
            standard errors.
        probes: Random vectors for each J (N_v in the paper).
        generator: The only source of randomness; by default a fresh one with seed 0.
        blocks: Where the blocks end; see `critinit.trace`.
        output: Picks the output tensor from what the model returns.
        progress: Called with how many sizes are done, and of how many.

    A small size is measured on up to 32 disjoint batches of the same examples, and averaged.

    >>> import torch, critinit
    >>> from critinit.models import mlp
    >>> from critinit.scan import batch_scan
    >>> _ = torch.manual_seed(0)
    >>> model, x = mlp(256, 4, inputs=20), torch.randn(256, 20)
    >>> batch_scan(model, x, sizes=(4, 64, 256), probes=4).verdict()
    'use |B| = 4: log J depends on |B| by no more than 0.05 in any block'
    """
    wanted = _checked(sizes, tol)
    module = same_module(model)
    generator = checked_generator(generator)
    data, available = _gather(module, inputs, wanted[-1], generator)
    left_out = _left_out(module, wanted, available)
    usable = [size for size in wanted if size not in left_out]
    if len(usable) < 2:
        reasons = "; ".join(f"{size}: {why}" for size, why in left_out.items()) or "none left out"
        raise InputError(
            f"sizes={tuple(sizes)} leaves {len(usable)} to measure ({reasons}), and it takes two "
            "to compare. Pass more examples or more sizes."
        )
    chain = trace(module, _part(data, 0, usable[0]), blocks, output)
    profiles: list[Profile] = []
    for size in usable:
        if progress is not None:
            progress(len(profiles), len(usable))
        batches = _batches(data, size, usable[-1])
        profiles.append(measure(chain, batches, probes=probes, generator=generator))
    return BatchScan(usable, profiles, tol, left_out)


def _checked(sizes: Sequence[int], tol: float) -> list[int]:
    if not 0 < tol < math.inf:
        raise InputError(f"tol={tol}: how far log J may be off is a number above 0.")
    if not isinstance(sizes, Sequence) or not all(isinstance(size, int) for size in sizes):
        raise InputError(f"sizes={sizes!r}: pass several whole numbers, such as (8, 32, 128).")
    wanted = sorted(set(sizes))
    if not wanted or wanted[0] < 1:
        raise InputError(f"sizes={tuple(sizes)}: pass batch sizes from 1 up, such as (8, 32, 128).")
    return wanted


def _gather(
    model: nn.Module, inputs: object, needed: int, generator: torch.Generator
) -> tuple[Batch, int]:
    """The first ``needed`` examples as one batch, or all there are; and how many."""
    found: list[Batch] = []
    available = 0
    for batch in with_own_randomness(lambda: read_batches(model, inputs), generator):
        found.append(batch)
        available += _examples(batch)
        if available >= needed:
            break
    return _joined(found), available


def _examples(batch: Batch) -> int:
    lengths = {t.shape[0] if t.ndim else 0 for t in batch.tensors()}
    if len(lengths) != 1 or 0 in lengths:
        raise InputError(
            "the inputs cannot be cut into smaller batches: their tensors have the shapes "
            f"{[tuple(t.shape) for t in batch.tensors()]}. Every one must have the examples along "
            "its first dimension."
        )
    return lengths.pop()


def _joined(batches: Sequence[Batch]) -> Batch:
    try:
        columns = zip(*(batch.tensors() for batch in batches), strict=True)
        joined = iter([torch.cat(column) for column in columns])
    except (RuntimeError, ValueError) as error:
        raise InputError(
            f"the batches cannot be joined along their first dimension: {error}. Pass batches that "
            "differ in the number of examples alone."
        ) from error
    return batches[0].map(lambda _: next(joined))


def _left_out(model: nn.Module, sizes: Sequence[int], available: int) -> dict[int, str]:
    out = {size: f"only {available} examples were given" for size in sizes if size > available}
    if 1 in sizes and any(
        isinstance(m, nn.modules.batchnorm._BatchNorm) and uses_batch_statistics(m)
        for m in model.modules()
    ):
        out[1] = "BatchNorm in training mode has no statistics of one example"
    return dict(sorted(out.items()))


def _batches(data: Batch, size: int, largest: int) -> list[Batch]:
    """Disjoint batches of the first ``largest`` examples."""
    return [_part(data, i * size, size) for i in range(min(largest // size, _MOST_BATCHES))]


def _part(data: Batch, start: int, size: int) -> Batch:
    return data.map(lambda t: t[start : start + size])
