"""Every command is described."""

from __future__ import annotations

import re
from pathlib import Path

from critinit.cli._commands import COMMANDS


def test_every_command_is_described() -> None:
    text = (Path(__file__).parents[2] / "docs/cli.md").read_text()
    assert set(COMMANDS) == set(re.findall(r"^\| `critinit (\w+)", text, re.MULTILINE))
