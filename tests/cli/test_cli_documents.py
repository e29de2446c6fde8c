"""Every ``critinit`` command that a document shows runs, and every command is described."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from cli.terminal import call

from critinit.cli._commands import COMMANDS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"```(sh|python)\n(.*?)```", re.DOTALL)
SLOW = ("critinit demo",)  # has a test of its own


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for language, code in BLOCK.findall(page.read_text()):
        lines = [line for line in code.splitlines() if line.startswith("critinit ")]
        for line in lines if language == "sh" else ():
            if not line.startswith(SLOW):
                ended = call(*shlex.split(line, comments=True)[1:])
                assert ended.status == 0, (line, ended)


def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    call("tune", "mlp", "--data", "digits", "--out", "tuned.safetensors")
    text = (ROOT / "docs/cli.md").read_text()
    for language, code in BLOCK.findall(text):
        if language == "python":
            scope: dict[str, Any] = {}
            exec(code, scope)
            expression, _, shown = code.strip().splitlines()[-1].partition("  # ")
            assert repr(eval(expression, scope)) == shown


def test_every_command_is_described() -> None:
    text = (ROOT / "docs/cli.md").read_text()
    assert set(COMMANDS) == set(re.findall(r"^\| `critinit (\w+)", text, re.MULTILINE))
