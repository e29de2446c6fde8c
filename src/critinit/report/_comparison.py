"""Several networks, or one initialized in several ways, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from critinit.profile import Profile
from critinit.report._section import ReportError
from critinit.report._words import worst


@dataclass(frozen=True)
class Comparison:
    """Named profiles.

    Attributes:
        profiles: What was measured, by method.
        seconds: What each method took, where that is known.
        failed: Methods that did not work, and why.
    """

    profiles: Mapping[str, Profile]
    seconds: Mapping[str, float] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.profiles:
            raise ReportError("there is no profile to compare: pass at least one, by name.")
        unknown = self.seconds.keys() - self.profiles.keys() - self.failed.keys()
        if unknown:
            raise ReportError(
                f"seconds= names {', '.join(sorted(unknown))}, but the profiles are "
                f"{', '.join(self.profiles)}: use the same names."
            )

    @property
    def best(self) -> str:
        """The name whose worst block is nearest to J = 1."""

        def distance(name: str) -> float:
            profile = self.profiles[name]
            return float(profile.log_apjn[worst(profile)].abs())

        return min(self.profiles, key=distance)

    def verdict(self) -> str:
        """One sentence: which is nearest to critical."""
        profile = self.profiles[self.best]
        i = worst(profile)
        how = "critical" if profile.is_critical() else "nearest to critical"
        return (
            f"{self.best} is {how}: its J farthest from 1 is {float(profile.apjn[i]):.3g}, "
            f"in block l={i}, {profile.names[i]}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings, ready for JSON."""
        return {
            "profiles": {name: profile.to_dict() for name, profile in self.profiles.items()},
            "seconds": dict(self.seconds),
            "failed": dict(self.failed),
            "best": self.best,
        }
