"""What a profile means and what to do about it, in plain words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor

from critinit.plot._ticks import written_log
from critinit.profile import Profile

TOL = 0.1  # of |log J|, as in Profile.is_critical
_SIGMAS = 2.0
_NEARLY = 0.3
_ALIKE = 0.95
_FEW = 4

Kind = Literal["critical", "noisy", "nearly", "vanishing", "exploding", "uneven", "blocked"]

Tone = Literal["good", "mild", "bad"]

HEADLINES: dict[Kind, str] = {
    "critical": "Critical",
    "noisy": "Critical within the error bars",
    "nearly": "Nearly critical",
    "vanishing": "Gradients vanish",
    "exploding": "Gradients explode",
    "uneven": "Uneven from block to block",
    "blocked": "No gradient passes",
}
_TONES: dict[Kind, Tone] = {
    "critical": "good",
    "noisy": "good",
    "nearly": "mild",
    "vanishing": "bad",
    "exploding": "bad",
    "uneven": "mild",
    "blocked": "bad",
}


def headline(profile: Profile) -> str:
    """The finding in a few words."""
    found = kind(profile)
    return HEADLINES[found] + (f" {_blocked(profile)}" if found == "blocked" else "")


def tone(profile: Profile) -> Tone:
    """Whether that is good; no more than a pity where a dead block is the only one at fault."""
    found = kind(profile)
    return "mild" if found == "blocked" and _others_are_critical(profile) else _TONES[found]


def kind(profile: Profile) -> Kind:
    """Which of the headlines fits."""
    if bool((_hidden(profile, profile.apjn) == 0).any()):
        return "blocked"
    if profile.is_critical(TOL):
        return "critical"
    off = _hidden(profile, profile.log_apjn).abs()
    noise = _hidden(profile, profile.apjn_se / profile.apjn).nan_to_num(0.0)
    if bool((off < TOL + _SIGMAS * noise).all()):
        return "noisy"
    change = log10_change(profile) * math.log(10)
    if abs(change) >= 1:
        return "exploding" if change > 0 else "vanishing"
    return "nearly" if bool((off < _NEARLY).all()) else "uneven"


def log10_change(profile: Profile) -> float:
    """The decimal logarithm of what the hidden blocks do to the *square* of a gradient's norm.

    Blocks that pass none at all are left out.
    """
    logs = _hidden(profile, profile.log_apjn)
    return float(logs[logs.isfinite()].double().sum()) / math.log(10)


def worst(profile: Profile) -> int:
    """The block, other than the input block, that is farthest from J = 1."""
    off = profile.log_apjn.abs().nan_to_num(math.inf, math.inf)
    return int(off.where(profile.is_hidden, torch.tensor(-1.0)).argmax())


def explanation(profile: Profile) -> list[str]:
    """What is the matter: over the depth, where, and with the signal."""
    return [over_the_depth(profile), *_places(profile), _signal(profile)]


def over_the_depth(profile: Profile) -> str:
    """What the blocks do to gradients together."""
    logs, found = log10_change(profile), kind(profile)
    among = "Through all other blocks" if found == "blocked" else "From the output back"
    off = float(_hidden(profile, profile.log_apjn).abs().max())
    said = {
        "critical": f"Every block keeps the size of gradients: |log J| is at most {off:.2g}.",
        "noisy": "Where J is off by more than 10 %, it is by no more than its error explains.",
        "nearly": "Gradients keep their size over the depth, and nearly so from block to block.",
        "uneven": "Gradients keep their size over the whole depth, but not from block to block.",
    }
    if (sentence := said.get(found)) is not None:
        return sentence
    if abs(logs) * math.log(10) < 1:
        return f"{among}, gradients keep their size."
    verb, harm = (
        ("grows", "training diverges unless the learning rate is tiny")
        if logs > 0
        else ("shrinks", "the first layers hardly learn")
    )
    factor = written_log(abs(logs) / 2)
    end = f": {harm}" if abs(logs) / 2 > 1 else ""
    return f"{among}, the norm of a gradient {verb} by a factor of {factor}{end}."


def _places(profile: Profile) -> list[str]:
    logs, alive = profile.log_apjn, profile.is_hidden & (profile.apjn > 0)
    small, large = ("J below 0.9", "J above 1.1")
    if kind(profile) != "noisy":
        small, large = (f"Vanishing ({small})", f"Exploding ({large})")
    return [
        f"{what} in {named(found, profile.names)}."
        for what, marks in ((small, logs <= -TOL), (large, logs >= TOL))
        if (found := (marks & alive).nonzero().flatten().tolist())
    ]


def named(blocks: Sequence[int], names: Sequence[str]) -> str:
    """Blocks by number, neighbours together, and by name where it is one.

    >>> named([1], ["stem", "head"]), named([1, 2, 3, 6, 7], [""] * 9)
    ('block 1 (head)', '5 blocks: 1–3, 6–7')
    """
    if len(blocks) == 1:
        return f"block {blocks[0]} ({names[blocks[0]]})"
    starts = [blocks[0], *(b for a, b in pairwise(blocks) if b != a + 1)]
    ends = [*(a for a, b in pairwise(blocks) if b != a + 1), blocks[-1]]
    runs = [f"{a}–{b}" if b > a else f"{a}" for a, b in zip(starts, ends, strict=True)]
    more = f" and {len(runs) - _FEW} more places" if len(runs) > _FEW else ""
    return f"{len(blocks)} blocks: {', '.join(runs[:_FEW])}{more}"


def _signal(profile: Profile) -> str:
    first, last = float(profile.kernel[0]), float(profile.kernel[-1])
    text = f"The signal's mean square K goes from {first:.3g} at the input to {last:.3g} at the end"
    start, end = float(profile.correlation[0]), float(profile.correlation[-1])
    if end > _ALIKE > start and kind(profile) != "blocked":  # a zero head gives the same to all
        return (
            f"{text}, where different inputs have become nearly the same (cosine {end:.2f}). "
            "J = 1 does not mend that; skip connections or normalization may."
        )
    return f"{text}."


def advice(profile: Profile) -> list[str]:
    """What to do with a network that was measured."""
    found = kind(profile)
    if found in ("critical", "noisy"):
        lines = ["Nothing needs to be done about the initialization: train it."]
        return lines + (["More probes= would make the errors smaller."] if found == "noisy" else [])
    lines = [_about_the_blocked(profile)] if found == "blocked" else []
    if not _others_are_critical(profile):
        lines.append(
            "Tune it: critinit.tune_(model, batch), or critinit tune MODEL in a terminal, scales "
            "each parameter tensor by one number until every J is 1."
        )
    return lines


def advice_after_tuning(profile: Profile) -> list[str]:
    """What to do with a network that was tuned."""
    found = kind(profile)
    if found in ("critical", "noisy"):
        return ["Train it. The best learning rate may be another one than before: try a few."]
    if found == "blocked":
        rest = ["All other blocks are critical."] if _others_are_critical(profile) else []
        return [_about_the_blocked(profile), *rest]
    return [
        "More probes= or a larger batch make J more certain, and tuning with it.",
        "Where J and K conflict, or a zero bias cannot be scaled, draw the weights afresh: "
        "base='orthogonal' gives biases a variance, too. Another solver is critinit.SGD(...).",
    ]


def _about_the_blocked(profile: Profile) -> str:
    return (
        f"Look at {_blocked(profile)}: parameters that are zero pass no gradient, and no "
        "multiplier can move them. If they are meant to start there (a zero head, say), the first "
        "step of training opens the way; if not, draw them afresh with critinit.reset_."
    )


def _blocked(profile: Profile) -> str:
    return named(
        ((profile.apjn == 0) & profile.is_hidden).nonzero().flatten().tolist(), profile.names
    )


def _others_are_critical(profile: Profile) -> bool:
    """Whether all blocks are that pass any gradient."""
    logs = _hidden(profile, profile.log_apjn)
    return bool((logs[logs.isfinite()].abs() < TOL).all())


def key_figures(profile: Profile) -> dict[str, str]:
    """The few numbers that say most."""
    i = worst(profile)
    logs = log10_change(profile)
    factor = written_log(abs(logs) / 2)
    j = written_log(float(profile.apjn[i].double().log10()))
    return {
        "J farthest from 1": f"{j} in block {i}",
        "Gradient norm over the depth": f"× {factor}" if logs >= 0 else f"÷ {factor}",
        "K at the end": f"{float(profile.kernel[-1]):.3g}",
        "Cosine at the end": cosine(float(profile.correlation[-1])),
    }


def cosine(value: float) -> str:
    """In two digits, if it is known."""
    return "–" if math.isnan(value) else f"{value:z.2f}"


def _hidden(profile: Profile, values: Tensor) -> Tensor:
    return values[profile.is_hidden]
