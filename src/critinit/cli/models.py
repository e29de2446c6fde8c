"""``critinit models``."""

from __future__ import annotations

import re
from inspect import formatannotation
from typing import Annotated

import typer
from rich.console import Console

from critinit.cli._console import note, output
from critinit.cli._options import Debug
from critinit.cli._tables import table
from critinit.cli.errors import CommandError
from critinit.cli.sources import FAMILIES
from critinit.errors import CritinitError
from critinit.models import registry
from critinit.models._options import suggestion

app = typer.Typer(add_completion=False)


@app.command()
def command(
    search: Annotated[
        str | None,
        typer.Argument(
            help="A part of a name, such as resnet or timm:vit; of a built-in, its arguments."
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """List the built-in models; or search them and those of timm, torchvision and transformers."""
    console = output(quiet=False)
    if search is None:
        _list(console)
    elif search in registry.names():
        _explain(console, registry.find(search))
    else:
        _search(console, search)


def _list(console: Console) -> None:
    rows = table("model", "what it is")
    for name in registry.names():
        rows.add_row(name, registry.find(name).summary)
    for family in FAMILIES:
        rows.add_row(f"{family}:NAME", f"`critinit models {family}:` lists them")
    rows.add_row("path/to/file.py:factory", "your own: a function that returns a network")
    console.print(rows)
    print("\n`critinit models NAME` shows the arguments of a built-in, for --set.")


def _explain(console: Console, entry: registry.Entry) -> None:
    console.print(f"{entry.name}: {entry.summary}\n")
    rows = table("argument", "default", "type")
    for name, parameter in entry.options.items():
        kind = re.sub(r"[\w.]+\.(\w+)", r"\1", formatannotation(parameter.annotation))
        default = parameter.default
        rows.add_row(name, getattr(default, "__name__", str(default)), kind)
    console.print(rows)
    example = "×".join(map(str, entry.input_shape()))
    print(f"\nOne example is {example} unless --set, --data or --size say otherwise.")


def _search(console: Console, part: str) -> None:
    everything = registry.names()
    for family, source in FAMILIES.items():
        try:
            everything += [f"{family}:{name}" for name in source.names()]
        except CritinitError as absent:
            note(f"critinit: {absent}", quiet=False)
    found = [name for name in everything if part.lower() in name.lower()]
    if not found:
        raise CommandError(f"no model has {part!r} in its name. {suggestion(part, everything)}")
    for name in found:
        console.print(name, soft_wrap=True)
