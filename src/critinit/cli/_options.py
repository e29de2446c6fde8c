"""Options that several commands share, in groups: a group is a dataclass, a field an option."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from enum import StrEnum
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from typer import Argument, Option

_INPUT, _FILES, _RUN = "Input", "Files", "Running"


class DType(StrEnum):
    """Floating point formats."""

    float32 = "float32"
    float64 = "float64"
    bfloat16 = "bfloat16"
    float16 = "float16"


Seed = Annotated[
    int,
    Option(min=0, max=2**63 - 1, metavar="N", help="Of everything random.", rich_help_panel=_RUN),
]
Threads = Annotated[
    int | None, Option(min=1, max=1024, help="Of the processor.", rich_help_panel=_RUN)
]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print errors only.", rich_help_panel=_RUN)]
Debug = Annotated[bool, Option("--debug", help="Show where an error was.", rich_help_panel=_RUN)]
Probes = Annotated[int, Option(min=1, help="Random vectors for each J.")]


@dataclass(frozen=True)
class Subject:
    """Which network, on which data."""

    model: Annotated[
        str,
        Argument(
            metavar="MODEL",
            help="A built-in (`critinit models`), timm:NAME, torchvision:NAME, "
            "hf:NAME-OR-CONFIG.json, or path/to/file.py:factory, which runs that file.",
        ),
    ]
    settings: Annotated[
        list[str],
        Option(
            "--set",
            metavar="KEY=VALUE",
            help="An argument of the model's factory; may be repeated.",
            rich_help_panel=_INPUT,
        ),
    ] = field(default_factory=list)
    weights: Annotated[
        Path | None,
        Option(help="Start from these weights, a .safetensors file.", rich_help_panel=_INPUT),
    ] = None
    data: Annotated[
        str,
        Option(
            metavar="DATA",
            help="gaussian, digits, fashion-mnist, cifar10, folder:PATH or FILE.npy; tokens or "
            "tokens:VOCABULARY, which language models get.",
            rich_help_panel=_INPUT,
        ),
    ] = "gaussian"
    size: Annotated[
        str | None,
        Option(
            metavar="SIZE",
            help="Of one example: the side of an image, HxW, CxHxW, or the length of a vector or "
            "text.",
            rich_help_panel=_INPUT,
        ),
    ] = None
    batch: Annotated[int, Option(min=1, help="Examples in a batch.", rich_help_panel=_INPUT)] = 32
    batches: Annotated[
        int,
        Option(
            min=1,
            help="How many batches; of several the first judges a tuning.",
            rich_help_panel=_INPUT,
        ),
    ] = 1


@dataclass(frozen=True)
class Running:
    """How to run."""

    seed: Seed = 0
    device: Annotated[str, Option(help="cpu, cuda, cuda:1, mps, …", rich_help_panel=_RUN)] = "cpu"
    dtype: Annotated[DType, Option(help="The precision.", rich_help_panel=_RUN)] = DType.float32
    threads: Threads = None
    quiet: Quiet = False
    debug: Debug = False


@dataclass(frozen=True)
class Files:
    """What to write."""

    json: Annotated[
        Path | None,
        Option(metavar="FILE", help="Write all numbers as JSON.", rich_help_panel=_FILES),
    ] = None
    report: Annotated[
        Path | None,
        Option(metavar="FILE.html", help="Write one page to read.", rich_help_panel=_FILES),
    ] = None


def flat(command: Callable[..., None]) -> Callable[..., None]:
    """A function that Typer understands: each group among the parameters becomes its fields."""
    hints = get_type_hints(command, include_extras=True)
    groups = {n: hints[n] for n in signature(command).parameters if is_dataclass(hints[n])}
    parameters: list[Parameter] = []
    for name, parameter in signature(command).parameters.items():
        if name in groups:
            parameters += _parameters(groups[name])
        else:
            parameters.append(
                parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=hints[name])
            )

    def run(**given: Any) -> None:
        values = {
            name: group(**{f.name: given.pop(f.name) for f in fields(group)})
            for name, group in groups.items()
        }
        command(**values, **given)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return run


def _parameters(group: Any) -> list[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        Parameter(f.name, Parameter.KEYWORD_ONLY, default=_default(f), annotation=hints[f.name])
        for f in fields(group)
    ]


def _default(option: Field[Any]) -> Any:
    if option.default is not MISSING:
        return option.default
    return Parameter.empty if option.default_factory is MISSING else option.default_factory()
