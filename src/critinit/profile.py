"""What a measurement found: ``J``, ``K`` and the correlation at every block, with errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from critinit._format import BAR, bar, cosine, html_table, numbers, power, short, shortened
from critinit.errors import CritinitError


@dataclass(frozen=True, eq=False)
class Profile:
    """J and K of every block of a network.

    Attributes:
        names: The blocks.
        apjn: ``J^{l,l+span}``, one for each block.
        apjn_se: Its standard error, from the spread over examples, probes and batches; NaN where
            there is only one of each.
        kernel: ``K^l``, the mean square of ``h^l``; one more than there are blocks.
        correlation: The mean cosine between different examples at each ``h^l``: near 1 they have
            collapsed onto each other. NaN for a single example.
        model: The class name of the model.
        method: How the Jacobian was measured.
        span: How many blocks each J spans.
        probes: Random vectors for each J.
        batches: How many batches were averaged.
        batch_size: Examples in the (first) batch.
    """

    names: list[str]
    apjn: Tensor
    apjn_se: Tensor
    kernel: Tensor
    correlation: Tensor
    model: str
    method: str
    span: int
    probes: int
    batches: int
    batch_size: int
    _remeasure: Callable[[int, int], tuple[Tensor, Tensor]] | None = field(
        default=None, repr=False, compare=False
    )

    def __len__(self) -> int:
        return len(self.names)

    @property
    def kernel_ratio(self) -> Tensor:
        """``K^{l+span} / K^l``: the forward pass's counterpart of J."""
        return self.kernel[1:] / self.kernel[:-1]

    @property
    def log_apjn(self) -> Tensor:
        """``log J``; minus infinity for a block that passes no gradient at all."""
        return self.apjn.log()

    @property
    def is_hidden(self) -> Tensor:
        """Marks the blocks ``1 ≤ l ≤ L`` of the definition: all but the input block."""
        hidden = torch.ones(len(self), dtype=torch.bool)
        hidden[0] = len(self) == 1
        return hidden

    def is_critical(self, tol: float = 0.1) -> bool:
        """Whether ``|log J| < tol`` for every block but the input block."""
        return bool((self.log_apjn[self.is_hidden].abs() < tol).all())

    def factorization(self, start: int = 0, stop: int | None = None) -> Factorization:
        """Compare ``J^{start,stop}``, measured directly, with the product of its blocks' J.

        They agree in the limit of infinite width (eq. factor). By default ``stop`` is ``L``: all
        blocks but the last. The model is measured as it is now.
        """
        stop = max(1, len(self) - 1) if stop is None else stop
        if not 0 <= start < stop <= len(self):
            raise CritinitError(
                f"factorization({start}, {stop}): need 0 ≤ start < stop ≤ {len(self)}."
            )
        if self._remeasure is None:
            raise CritinitError(
                "this profile was loaded or copied without its model, so J cannot be measured "
                "again. Call critinit.measure on the model first."
            )
        direct, direct_se = self._remeasure(start, stop)
        factors, errors = self.apjn[start:stop], self.apjn_se[start:stop]
        product = factors.prod()
        return Factorization(
            start=start,
            stop=stop,
            direct=float(direct),
            direct_se=float(direct_se),
            product=float(product),
            product_se=float(product * (errors / factors).square().sum().sqrt()),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings, ready for JSON (infinities and NaN become None)."""
        return {
            "model": self.model,
            "method": self.method,
            "span": self.span,
            "probes": self.probes,
            "batches": self.batches,
            "batch_size": self.batch_size,
            "names": list(self.names),
            "apjn": numbers(self.apjn.tolist()),
            "apjn_se": numbers(self.apjn_se.tolist()),
            "kernel": numbers(self.kernel.tolist()),
            "kernel_ratio": numbers(self.kernel_ratio.tolist()),
            "correlation": numbers(self.correlation.tolist()),
            "is_critical": self.is_critical(),
        }

    def verdict(self) -> str:
        """One sentence: critical or not, and where it is worst."""
        logs = self.log_apjn[self.is_hidden]
        if self.is_critical():
            return f"critical: |log J| is at most {float(logs.abs().max()):.2g} in every block"
        worst = int(self.log_apjn.abs().where(self.is_hidden, torch.tensor(-1.0)).argmax())
        place = f"l={worst}, {self.names[worst]}"
        total = float(logs.sum())
        if math.isinf(total):
            effect = f"no gradient passes block {place}"
        elif abs(total) < 1:
            effect = "gradients keep their size over the whole depth, but not from block to block"
        else:
            verb = "explode" if total > 0 else "vanish"
            effect = f"gradient norms {verb} by a factor {power(abs(total) / 2)} over the depth"
        j = float(self.apjn[worst])
        return f"not critical: {effect}\nfarthest from J = 1: block {place}, with J = {j:.3g}"

    def __str__(self) -> str:
        names = [shortened(name) for name in self.names]
        width = max(len("(input)"), *(len(name) for name in names))
        noun = "batch" if self.batches == 1 else "batches"
        plural = "" if self.probes == 1 else "s"
        probe = "" if self.method == "exact" else f", {self.probes} probe{plural}"
        lines = [
            f"{self.model}: {len(self)} blocks, {self.batches} {noun} of {self.batch_size}, "
            f"{self.method}{probe}",
            f"{'l':>4}  {'block':<{width}}  {'J':>9} {'±':>8}  {'log J':>{BAR}}{'':<{BAR + 1}}  "
            f"{'K':>9}  {'corr':>5}",
            f"{'':>4}  {'(input)':<{width}}  {'':>18}  {'':>{2 * BAR + 1}}  "
            f"{short(self.kernel[0])}  {cosine(self.correlation[0])}",
        ]
        for i, name in enumerate(names):
            lines.append(
                f"{i:>4}  {name:<{width}}  {short(self.apjn[i])} {short(self.apjn_se[i], 8)}  "
                f"{bar(float(self.log_apjn[i]))}  "
                f"{short(self.kernel[i + 1])}  {cosine(self.correlation[i + 1])}"
            )
        return "\n".join([*lines, self.verdict()])

    def _repr_html_(self) -> str:
        head = ("l", "block", "J", "±", "log J", "K", "corr")
        rows = [["", "(input)", "", "", "", short(self.kernel[0]), cosine(self.correlation[0])]]
        rows += [
            [
                str(i),
                name,
                short(self.apjn[i]),
                short(self.apjn_se[i]),
                f"{float(self.log_apjn[i]):.2f}",
                short(self.kernel[i + 1]),
                cosine(self.correlation[i + 1]),
            ]
            for i, name in enumerate(self.names)
        ]
        return html_table(f"{self.model}: {self.verdict()}", head, rows)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_remeasure": None}


@dataclass(frozen=True)
class Factorization:
    """``J^{start,stop}`` measured directly, beside the product of the J between."""

    start: int
    stop: int
    direct: float
    direct_se: float
    product: float
    product_se: float

    @property
    def ratio(self) -> float:
        """Direct over product: 1 in the limit of infinite width.

        NaN where either is zero: over a great depth, gradients vanish below what their precision
        can hold, though each block's J is measured well.
        """
        return self.direct / self.product if self.direct and self.product else math.nan
