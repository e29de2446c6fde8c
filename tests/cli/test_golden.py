"""What the terminal shows, compared with files; ``pytest --renew-golden`` writes them anew."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cli.terminal import call

GOLDEN = Path(__file__).with_name("golden")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
BAR = re.compile(r"[▒█]+")

CASES = {
    "help": ("--help", 80),
    "measure-help": ("measure --help", 100),
    "measure-help-narrow": ("measure --help", 80),
    "measure": ("measure mlp --set depth=6 --batch 16", 80),
    "measure-narrow": ("measure mlp --set depth=6 --batch 16", 60),
    "measure-narrowest": ("measure bn_mlp --set depth=12 --batch 8", 45),
    "measure-long-names": ("measure bn_mlp --set depth=12 --set sigma_w=1.4 --batch 8", 80),
    "measure-critical": ("measure mlp --set depth=4 --set sigma_w=1.4142 --probes 4", 120),
    "tune": ("tune mlp --set depth=6 --batch 16", 80),
    "tune-narrow": ("tune mlp --set depth=6 --batch 16", 60),
    "tune-narrowest": ("tune mlp --set depth=6 --batch 16", 45),
    "tune-wide": ("tune mlp --set depth=6 --batch 16 --base orthogonal --loss jll", 120),
    "scan": ("scan bn_mlp --set depth=4 --sizes 1,4,16,64", 80),
    "compare": ("compare mlp --set depth=6 --batch 16", 120),
    "models": ("models", 80),
    "models-vgg19": ("models vgg19", 80),
    "theory-mlp": ("theory mlp --depth 4 --activation tanh --sigma-w 1.5", 80),
    "theory-phase": ("theory phase --activation tanh --sigma-w 1.5", 80),
    "theory-critical": ("theory critical --activation gelu", 80),
}
TAKES_TIME = ("compare",)  # and says how much


@pytest.mark.parametrize("name", CASES)
def test_golden(name: str, request: pytest.FixtureRequest) -> None:
    line, width = CASES[name]
    ended = call(*line.split(), width=width)
    assert (ended.status, ended.err) == (0, "")
    shown = "\n".join(row.rstrip() for row in ended.out.splitlines()) + "\n"
    assert max(map(len, shown.splitlines())) <= width
    file = GOLDEN / f"{name}.txt"
    if request.config.getoption("--renew-golden"):
        file.write_text(shown)
    expected = file.read_text()
    assert words(shown) == words(expected)
    if name not in TAKES_TIME:
        for found, wanted in zip(numbers(shown), numbers(expected), strict=True):
            assert found == pytest.approx(wanted, rel=0.03, abs=0.015), (found, wanted)


def words(text: str) -> list[str]:
    """All but the numbers, which differ a little between processors, and the bars with them."""
    return NUMBER.sub("#", BAR.sub("", text)).replace("│", "").split()


def numbers(text: str) -> list[float]:
    return [float(found) for found in NUMBER.findall(text)]
