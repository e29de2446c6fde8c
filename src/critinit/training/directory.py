"""What a run leaves behind: exactly what was run, how it went, and where to go on."""

from __future__ import annotations

import csv
import io
import json
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from critinit._files import WriteError, write_text
from critinit.training.errors import TrainingError
from critinit.training.recipe import Recipe

METRICS = "metrics.csv"
COLUMNS = ("epoch", "lr", "train_loss", "train_accuracy", "test_loss", "test_accuracy")
_RUN = "run.json"
_PACKAGES = ("critinit", "torch", "timm", "accelerate", "numpy")


class Directory:
    """A folder for one run. A second run of the same goes on in it; any other is refused."""

    def __init__(self, path: Path, recipe: Recipe, init: str, seed: int) -> None:
        self.path = path
        wanted = {"recipe": recipe.to_dict(), "init": init, "seed": seed}
        self.wanted = json.loads(json.dumps(wanted))  # as a file gives it back: lists, no tuples
        self.lock = FileLock(path / ".lock")

    def open(self) -> None:
        """Make it, or make sure that it holds this run."""
        described = self.path / _RUN
        if self._holds_something() and not described.is_file():
            raise TrainingError(
                f"{self.path} is not empty and holds no run. Give a folder that is not there yet."
            )
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self.lock.acquire(timeout=0)
        except Timeout as error:
            raise TrainingError(f"{self.path} is in use: another process trains there.") from error
        except OSError as error:
            raise WriteError(f"{self.path} cannot be made: {error.strerror}.") from error
        for leftover in self.path.glob(".critinit-*"):  # of a killed run
            leftover.unlink()
        if described.is_file():
            self._compare(json.loads(described.read_text()))
            return
        about = {"command": sys.argv, "versions": _versions(), "machine": platform.platform()}
        write_text(described, json.dumps(self.wanted | about, indent=1) + "\n")

    def close(self) -> None:
        """Let others have it."""
        self.lock.release()

    def write_initialization(self, result: dict[str, Any]) -> None:
        """J, K and multipliers, before and after."""
        write_text(self.path / "initialization.json", json.dumps(result) + "\n")

    def write_metrics(self, rows: list[dict[str, float]]) -> None:
        """The table of all epochs so far."""
        text = io.StringIO()
        writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: _number(value) for key, value in row.items()} for row in rows)
        write_text(self.path / METRICS, text.getvalue())

    def _holds_something(self) -> bool:
        return self.path.is_dir() and any(p.name[0] != "." for p in self.path.iterdir())

    def _compare(self, found: dict[str, Any]) -> None:
        for key in ("init", "seed"):
            if found.get(key) != self.wanted[key]:
                raise self._differs(key, found.get(key), self.wanted[key])
        before, now = _flat(found.get("recipe", {})), _flat(self.wanted["recipe"])
        for key in before.keys() | now.keys():
            if before.get(key) != now.get(key):
                raise self._differs(key, before.get(key), now.get(key))

    def _differs(self, key: str, found: object, wanted: object) -> TrainingError:
        return TrainingError(
            f"{self.path} holds another run: its {key} is {found}, not {wanted}. Give another "
            "folder, or the same settings to go on with it."
        )


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def _flat(recipe: dict[str, Any]) -> dict[str, Any]:
    tuning = recipe.get("tuning", {})
    return {k: v for k, v in recipe.items() if k != "tuning"} | {
        f"tuning.{k}": v for k, v in tuning.items()
    }


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.9g}"
