"""One command: compute the points, keep them, and draw them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from critinit._files import replacing
from critinit.figures._cost import cost
from critinit.figures._figure import Figure, Scale, Settings
from critinit.figures._registry import find
from critinit.figures._sweep import Progress, fill
from critinit.figures._table import Table, fingerprint
from critinit.figures._versions import COLUMNS
from critinit.figures.errors import FigureError


@dataclass(frozen=True)
class Drawn:
    """A figure that is computed and drawn.

    Attributes:
        picture: The PNG file.
        table: The CSV file of its points.
        findings: What came out.
        cost: What it took, and what the scale of the paper would take here.
        computed: How many points were computed now; the others were there.
        points: How many points there are.
    """

    picture: Path
    table: Path
    findings: list[str]
    cost: str
    computed: int
    points: int

    def __str__(self) -> str:
        return "\n".join([*self.findings, self.cost])


def run(
    name: str,
    scale: Scale = "small",
    *,
    folder: str | Path = "figures",
    changes: Mapping[str, Any] | None = None,
    workers: int = 1,
    cluster: str | None = None,
    device: str = "cpu",
    progress: Progress = lambda done, total: None,
) -> Drawn:
    """Compute, keep and draw a figure.

    Points are appended to a table in ``folder`` as they finish. Running again computes only what is
    missing. Other settings make another table.

    Args:
        name: See `names`.
        scale: ``"smoke"`` takes seconds, ``"small"`` minutes on two processors, ``"paper"`` is the
            paper's.
        folder: Where table and picture go.
        changes: Settings other than the scale's, such as ``{"data": "gaussian"}``.
        workers: Processes on this machine.
        cluster: Address of a Dask scheduler, such as ``"tcp://10.0.0.1:8786"``, to use instead.
        device: Where networks run.
        progress: Called with how many points are done, and of how many.
    """
    if workers < 1:
        raise FigureError(f"workers={workers}: give a whole number from 1 up.")
    figure = find(name)
    settings = figure.settled(scale, changes or {})
    stem = f"{name}-{scale}"
    table = table_of(figure, settings, Path(folder) / f"{stem}-{fingerprint(settings)}.csv")
    computed = fill(
        table,
        figure,
        settings,
        workers=workers,
        cluster=cluster,
        device=device,
        progress=progress,
    )
    rows = table.rows()
    picture = Path(folder) / f"{stem}.png"
    with replacing(picture) as temporary:
        figure.draw(settings, rows).savefig(temporary, dpi=90, pil_kwargs={"optimize": True})
    findings = figure.findings(settings, rows)
    words = cost(figure, scale, settings, rows)
    return Drawn(picture, table.path, findings, words, computed, len(rows))


def table_of(figure: Figure, settings: Settings, path: Path) -> Table:
    """The table of a figure's points."""
    return Table(path, settings, figure.parameters, (*figure.results, *COLUMNS))
