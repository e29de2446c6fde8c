"""Every code block of the documents runs, and the output they show is what comes out."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from asserts import assert_same_text
from cli.terminal import call

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)


PAGES = [
    "README.md",
    *sorted(
        str(page.relative_to(ROOT))
        for page in ROOT.glob("docs/*.md")
        if re.search("```(python|sh)", page.read_text())
    ),
]


@pytest.mark.parametrize("page", PAGES)
def test_code_blocks_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {}
    printed = ""
    for language, code in BLOCK.findall((ROOT / page).read_text()):
        if language == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(code, page, "exec"), scope)
            printed = out.getvalue()
            check_comments(code, scope)
        elif language == "text":
            assert_same_text(printed, code, relative=0.05, absolute=0.01)
        elif language == "sh":
            run_commands(code)


def run_commands(code: str) -> None:
    """Those of ``critinit``; the demonstration has a test of its own."""
    for line in code.splitlines():
        if line.startswith("critinit ") and not line.startswith("critinit demo"):
            ended = call(*shlex.split(line, comments=True)[1:])
            assert ended.status == 0, (line, ended)


def check_comments(code: str, scope: dict[str, Any]) -> None:
    """A line ``expression  # [...]`` shows the expression's value."""
    for line in code.splitlines():
        expression, _, comment = line.partition("  # ")
        if comment.startswith("["):
            assert repr(eval(expression, scope)) == comment.strip()


def test_commands_exist() -> None:
    """Every ``make`` target that a document names is in the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md")]:
        named = set(re.findall(r"`make ([a-z-]+)`", page.read_text()))
        assert named <= targets, page


def test_files_exist() -> None:
    """Every file that CONTRIBUTING.md and README.md point to is there."""
    for page in ("README.md", "CONTRIBUTING.md"):
        text = (ROOT / page).read_text()
        paths = re.findall(r"`((?:src|tests|docs)/[\w/.-]+)`", text) + re.findall(
            r"\]\((docs/[\w/.-]+)\)", text
        )
        for path in paths:
            assert (ROOT / path).exists(), path
