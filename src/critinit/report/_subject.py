"""What a report can be about."""

from __future__ import annotations

from collections.abc import Mapping

from critinit.profile import Profile
from critinit.report._comparison import Comparison
from critinit.report._section import ReportError
from critinit.result import Result
from critinit.scan import BatchScan

Subject = Profile | Result | Comparison | BatchScan


def checked(subject: Subject | Mapping[str, Profile]) -> Subject:
    """A subject of a report; a mapping becomes a comparison."""
    if isinstance(subject, Profile | Result | Comparison | BatchScan):
        return subject
    if isinstance(subject, Mapping) and all(isinstance(p, Profile) for p in subject.values()):
        return Comparison(subject)
    raise ReportError(
        f"a {type(subject).__name__} cannot be reported on. Pass a Profile, a Result, a "
        "BatchScan, a Comparison, or a mapping of names to profiles."
    )


def model_of(subject: Subject) -> str:
    """The model's class name."""
    if isinstance(subject, Profile):
        return subject.model
    if isinstance(subject, Result):
        return subject.before.model
    if isinstance(subject, BatchScan):
        return subject.profiles[0].model
    models = dict.fromkeys(p.model for p in subject.profiles.values())
    return ", ".join(models)


def how_measured(subject: Subject) -> str:
    """Blocks, batches, estimator and probes."""
    if isinstance(subject, Result):
        return f"before: {_how(subject.before)}; after: {_how(subject.after)}"
    if isinstance(subject, Profile):
        return _how(subject)
    if isinstance(subject, BatchScan):
        return _how(subject.profiles[-1])
    return _how(next(iter(subject.profiles.values())))


def _how(profile: Profile) -> str:
    blocks = "block" if len(profile) == 1 else "blocks"
    noun = "batch" if profile.batches == 1 else "batches"
    plural = "" if profile.probes == 1 else "s"
    probes = "" if profile.method == "exact" else f", {profile.probes} probe{plural} for each J"
    span = "" if profile.span == 1 else f", each J over {profile.span} blocks"
    return (
        f"{len(profile)} {blocks}, {profile.batches} {noun} of {profile.batch_size}, "
        f"{profile.method}{probes}{span}"
    )
