"""``results.json``: every point that was measured, and with which packages."""

from __future__ import annotations

import json
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

from critinit._files import write_text

RESULTS = Path(__file__).parent / "results.json"
PACKAGES = ("torch", "torchvision", "timm", "lsuv", "gradinit")


def load() -> dict[str, Any]:
    found: dict[str, Any] = {"versions": {}, "points": {}}
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else found


def keep(key: str, point: dict[str, Any], order: list[str]) -> None:
    """Add a point, at once and whole; the file is in the given order."""
    points = load()["points"] | {key: rounded(point)}
    places = {name: i for i, name in enumerate(order)}
    points = {name: points[name] for name in sorted(points.keys() & places, key=places.__getitem__)}
    text = json.dumps({"versions": versions(), "points": points}, indent=1, ensure_ascii=False)
    write_text(RESULTS, text + "\n")


def versions() -> dict[str, str]:
    found = {name: version(name).partition("+")[0] for name in PACKAGES}
    return {**found, "python": platform.python_version(), "machine": platform.machine()}


def rounded(value: Any) -> Any:
    """Four digits are more than these figures are worth; JSON knows no infinity."""
    if isinstance(value, float):
        return float(f"{value:.4g}") if abs(value) < float("inf") else str(value)
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list) else value
