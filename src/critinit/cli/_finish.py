"""What every command ends with: the files that were asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from critinit._files import check_target, resolved, write_text
from critinit.cli._console import note
from critinit.cli._options import Files
from critinit.cli.errors import CommandError
from critinit.report import Run, Section, html, to_json
from critinit.report._subject import Subject


def check_files(*paths: Path | None) -> None:
    """Refuse, before the work begins, what could not be written at its end."""
    targets: dict[Path, Path] = {}
    for path in filter(None, paths):
        check_target(path)
        if (first := targets.setdefault(resolved(path), path)) is not path:
            raise CommandError(f"{path} is the same file as {first}: give each a name of its own.")


def write_files(
    files: Files, subject: Subject, run: Run, quiet: bool, sections: Sequence[Section] = ()
) -> None:
    """The JSON document and the report, each whole or not at all."""
    if files.json:
        write_text(files.json, to_json(subject, run=run))
        note(f"wrote {files.json}", quiet)
    if files.report:
        write_text(files.report, html(subject, run=run, sections=sections))
        note(f"wrote {files.report}", quiet)
