"""What tuning did, as a value: the network before and after, the multipliers, and the way there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from critinit._format import BAR, bar, html_table, short, shortened
from critinit.profile import Profile
from critinit.solvers import Step


@dataclass(frozen=True)
class Result:
    """What `critinit.tune_` did.

    Attributes:
        before: The profile of the network as it was.
        after: As it is now, by fresh probes, and on another batch where there is more than one.
        multipliers: ``a`` of every chosen parameter.
        history: The solver's steps, or blocks, with loss, J and K.
        converged: Whether the solver reached its aim.
        message: Why it stopped, and what limited it.
    """

    before: Profile
    after: Profile
    multipliers: dict[str, float]
    history: list[Step]
    converged: bool
    message: str

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings, ready for JSON."""
        return {
            "before": self.before.to_dict(),
            "after": self.after.to_dict(),
            "multipliers": dict(self.multipliers),
            "history": [step.to_dict() for step in self.history],
            "converged": self.converged,
            "message": self.message,
        }

    def __str__(self) -> str:
        names = [shortened(name) for name in self.before.names]
        width = max(len("(input)"), *(len(name) for name in names))
        log_j = f"{'log J':>{BAR}}{'':<{BAR + 1}}"
        wide = 9 + 2 + 2 * BAR + 1
        title = f"{self.before.model}, {len(self.before)} blocks"
        lines = [
            f"{title:<{width + 6}}  {'before':^{wide}}  {'after':^{wide}}".rstrip(),
            f"{'l':>4}  {'block':<{width}}  {'J':>9}  {log_j}  {'J':>9}  {log_j}  "
            f"{'K before':>9}  {'K after':>9}",
        ]
        for i, name in enumerate(names):
            cells = [
                f"{short(p.apjn[i])}  {bar(float(p.log_apjn[i]))}"
                for p in (self.before, self.after)
            ]
            kernels = [short(p.kernel[i + 1]) for p in (self.before, self.after)]
            lines.append(f"{i:>4}  {name:<{width}}  {'  '.join([*cells, *kernels])}")
        verdicts = [
            f"{when}: {p.verdict().splitlines()[0]}"
            for when, p in (("before", self.before), ("after", self.after))
        ]
        return "\n".join([*lines, *verdicts, *self.message.split("; ")])

    def _repr_html_(self) -> str:
        head = ("l", "block", "J before", "J after", "±", "K before", "K after")
        rows = [
            [
                str(i),
                name,
                short(self.before.apjn[i]),
                short(self.after.apjn[i]),
                short(self.after.apjn_se[i]),
                short(self.before.kernel[i + 1]),
                short(self.after.kernel[i + 1]),
            ]
            for i, name in enumerate(self.before.names)
        ]
        verdict = self.after.verdict().splitlines()[0]
        return html_table(f"{self.before.model}: {verdict}. {self.message}", head, rows)
