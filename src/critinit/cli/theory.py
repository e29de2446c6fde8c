"""``critinit theory``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from critinit import theory
from critinit.cli._console import output
from critinit.cli._options import Debug, flat
from critinit.cli._tables import table

app = typer.Typer(add_completion=False)

_PANEL = "The network"
Depth = Annotated[
    int, typer.Option(min=1, help="Hidden layers, or blocks.", rich_help_panel=_PANEL)
]
Activation = Annotated[str, typer.Option(help="relu, gelu, tanh, …", rich_help_panel=_PANEL)]
SigmaW = Annotated[
    float, typer.Option(help="Weights: variance σ_w²/fan_in.", rich_help_panel=_PANEL)
]
SigmaB = Annotated[float, typer.Option(help="Biases: variance σ_b².", rich_help_panel=_PANEL)]
Mu = Annotated[float, typer.Option(help="Of the skip connection.", rich_help_panel=_PANEL)]
Kernel = Annotated[float, typer.Option(help="K of the inputs.", rich_help_panel=_PANEL)]


@dataclass(frozen=True)
class Layers:
    """What all networks are made of."""

    activation: Activation = "relu"
    sigma_w: SigmaW = 2**0.5
    sigma_b: SigmaB = 0.0
    kernel: Kernel = 1.0


@dataclass(frozen=True)
class ResMLPLayers(Layers):
    """The same, with what is usual in a ResMLP."""

    activation: Activation = "gelu"
    sigma_w: SigmaW = 1.0


@app.callback(invoke_without_command=True)
def command(context: typer.Context) -> None:
    """What infinite width predicts, of networks and of the phases of a perceptron."""
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command()
@flat
def mlp(depth: Depth = 10, *, layers: Layers, debug: Debug = False) -> None:
    """J, K and correlation of a multilayer perceptron, block by block."""
    print(theory.mlp(depth, **vars(layers)))


@app.command()
@flat
def bn_mlp(
    depth: Depth = 10,
    *,
    layers: Layers,
    mu: Mu = 1.0,
    batch: Annotated[
        int | None, typer.Option(min=4, help="|B|; without it, infinite.", rich_help_panel=_PANEL)
    ] = None,
    debug: Debug = False,
) -> None:
    """The same of a residual perceptron with BatchNorm before each activation."""
    print(theory.bn_mlp(depth, mu=mu, batch_size=batch, **vars(layers)))


@app.command()
@flat
def ln_mlp(depth: Depth = 10, *, layers: Layers, mu: Mu = 1.0, debug: Debug = False) -> None:
    """The same of a residual perceptron with LayerNorm before each activation."""
    print(theory.ln_mlp(depth, mu=mu, **vars(layers)))


@app.command()
@flat
def resmlp(
    depth: Depth = 12,
    *,
    layers: ResMLPLayers,
    layer_scale: Annotated[
        float, typer.Option(help="E, which multiplies both branches.", rich_help_panel=_PANEL)
    ] = 0.1,
    mu: Mu = 1.0,
    debug: Debug = False,
) -> None:
    """The same of a ResMLP, from its embedding on."""
    print(theory.resmlp(depth, mu=mu, layer_scale=layer_scale, **vars(layers)))


@app.command()
@flat
def phase(layers: Layers, debug: Debug = False) -> None:
    """Where K of a deep perceptron goes, whether gradients vanish or explode there, how fast."""
    point = theory.fixed_point(**vars(layers))
    depth = theory.correlation_depth(**vars(layers))
    meaning = {
        "ordered": "gradients vanish, and all inputs become alike",
        "critical": "gradients keep their size",
        "chaotic": "gradients explode, and all inputs become unlike",
    }
    print(f"{point.phase}: {meaning[point.phase]}")
    print(f"K tends to {point.kernel:.4g}, where J = {point.chi_j:.4g}")
    print(f"two inputs stay telling apart over about {depth:.4g} layers")


@app.command()
def critical(
    activation: Activation = "relu",
    sigma_b: Annotated[
        list[float] | None, typer.Option(help="Of the biases; may be repeated.")
    ] = None,
    debug: Debug = False,
) -> None:
    """The σ_w at which a deep perceptron is critical, for each σ_b."""
    rows = table("σ_b", "σ_w", "K")
    for b in sigma_b or [0.0, 0.1, 0.2, 0.5, 1.0]:
        for point in theory.critical_points(activation, b):
            rows.add_row(f"{b:g}", f"{point.sigma_w:.5g}", f"{point.kernel:.4g}")
    output(quiet=False).print(rows)
