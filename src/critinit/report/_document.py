"""The same as JSON, by a schema that is shipped and versioned."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from critinit.profile import Profile
from critinit.report._comparison import Comparison
from critinit.report._run import Run
from critinit.report._subject import Subject, checked
from critinit.result import Result
from critinit.scan import BatchScan

_KINDS: dict[type, str] = {
    Profile: "profile",
    Result: "result",
    Comparison: "comparison",
    BatchScan: "scan",
}
_VERSION = 1


def document(subject: Subject | Mapping[str, Profile], *, run: Run | None = None) -> dict[str, Any]:
    """A result with what was run, as `schema` describes it.

    >>> import torch, critinit
    >>> from critinit.models import mlp
    >>> found = document(critinit.measure(mlp(64, 4), torch.randn(8, 784)))
    >>> found["schema"], sorted(found)
    ('critinit/profile/1', ['profile', 'run', 'schema', 'verdict'])
    """
    subject = checked(subject)
    kind = _KINDS[type(subject)]
    found = {
        "schema": f"critinit/{kind}/{_VERSION}",
        "verdict": (subject.after if isinstance(subject, Result) else subject).verdict(),
        "run": (Run() if run is None else run).to_dict(),
        kind: subject.to_dict(),
    }
    return {key: _finite(value) for key, value in found.items()}


def to_json(subject: Subject | Mapping[str, Profile], *, run: Run | None = None) -> str:
    """`document` as text, the same for the same result and run."""
    text = json.dumps(document(subject, run=run), indent=1, ensure_ascii=False, allow_nan=False)
    return text + "\n"


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of every document."""
    text = files("critinit.report").joinpath("schema-1.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def _finite(value: Any) -> Any:
    """JSON knows neither infinity nor NaN."""
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
