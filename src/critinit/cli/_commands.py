"""The commands. Each is a file of this package, which is imported when it is called."""

from __future__ import annotations

from importlib import import_module
from inspect import cleandoc
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

COMMANDS = {
    "measure": "Measure J and K of every block of a network.",
    "tune": "Tune a network until it is critical.",
    "scan": "Measure J at several batch sizes: how large must a batch be?",
    "compare": "Initialize a network in several ways, and set them side by side.",
    "figure": "Compute and draw a figure of the paper.",
    "train": "Train a network by a recipe of the paper, from any initialization.",
    "theory": "What infinite width predicts.",
    "models": "List the models, or search them.",
    "data": "List the data sets, or bring CIFAR-10.",
    "demo": "Watch a 50-layer network learn nothing, and learn once it is tuned.",
}


class Commands(TyperGroup):
    """Knows the commands by name: their files import torch, for which ``--help`` need not wait."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, help_line in COMMANDS.items():
            self.add_command(TyperCommand(name, help=help_line))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command itself, by now, in place of its name."""
        name, _, rest = super().resolve_command(ctx, args)
        assert name is not None
        return name, _load(name), rest


def _load(name: str) -> Any:
    module = import_module(f"critinit.cli.{name}")
    app: typer.Typer = module.app
    command: Any = typer.main.get_command(app)
    command.help = command.help or COMMANDS[name]
    for part in (command, *getattr(command, "commands", {}).values()):
        part.help = _unwrapped(part.help or "")
    return command


def _unwrapped(text: str) -> str:
    """Each paragraph as one line, which breaks where the terminal ends."""
    return "\n\n".join(" ".join(part.split()) for part in cleandoc(text).split("\n\n"))
