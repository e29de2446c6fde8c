"""Every code block of the documents runs, and the output they show is what comes out."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("page", ["README.md", "docs/blocks.md", "docs/training.md"])
def test_code_blocks_run(page: str) -> None:
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
            assert words(code) == words(printed)


def words(text: str) -> list[str]:
    """Without the last digits, which differ from one processor to the next."""
    return re.sub(r"(\d\.\d)\d*", r"\1", text).split()


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
