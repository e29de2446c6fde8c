"""What is on the axes, and that the same thing always looks the same."""

from __future__ import annotations

import builtins
import itertools
import math
from collections.abc import Iterator
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
import torch

mpl.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from report.subjects import broken, dead, deep, descended, measured, profile_of, single, tuned

import critinit
from critinit import plot, theory
from critinit.models import mlp
from critinit.plot._style import STYLES, indices, styles
from critinit.plot._ticks import linear_ticks, log_ticks, tick_label, written_log
from critinit.solvers import Step


@pytest.fixture
def ax() -> Iterator[Axes]:
    figure, axes = plt.subplots()
    yield axes
    figure.canvas.draw()  # a plot that cannot be drawn fails, and a warning is an error
    plt.close(figure)


def line(ax: Axes, name: str) -> Line2D:
    """The line of that name; Matplotlib keeps those with error bars in containers."""
    found = {c.get_label(): c.lines[0] for c in ax.containers}
    found |= {item.get_label(): item for item in ax.lines}
    return found[name]


def legend(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_a_profile_shows_j_with_errors_and_k(ax: Axes) -> None:
    profile = measured()
    assert plot.profile(profile, ax) is ax
    j, k = line(ax, "$J^{l,l+1}$"), line(ax, "$K^l$")
    assert j.get_ydata() == pytest.approx(profile.apjn.tolist())
    assert k.get_ydata() == pytest.approx(profile.kernel.tolist())
    assert list(k.get_xdata()) == list(range(len(profile) + 1))
    bars = ax.containers[0].lines[2][0].get_segments()
    for bar, value, se in zip(bars, profile.apjn.tolist(), profile.apjn_se.tolist(), strict=True):
        assert bar[:, 1] == pytest.approx([value - se, value + se])
    assert ax.get_yscale() == "log"
    assert any(list(item.get_ydata()) == [1, 1] for item in ax.lines), "the line at 1"


@pytest.mark.parametrize("quantity", ["apjn", "kernel", "product", "correlation"])
def test_a_comparison_shows_each_profile_in_its_look(ax: Axes, quantity: Any) -> None:
    found = {"before": tuned().before, "after": tuned().after}
    plot.comparison(found, ax, quantity)
    expected = {
        "apjn": lambda p: p.apjn,
        "kernel": lambda p: p.kernel,
        "product": lambda p: p.apjn[1:].cumprod(0).log10(),
        "correlation": lambda p: p.correlation,
    }[quantity]
    for (name, profile), style in zip(found.items(), styles(list(found)), strict=True):
        drawn = line(ax, name)
        assert drawn.get_ydata() == pytest.approx(expected(profile).tolist(), rel=1e-4, abs=1e-6)
        assert drawn.get_color() == style.colour
        assert drawn.get_marker() == style.marker
    assert legend(ax) == ["before", "after"]


@pytest.mark.parametrize("quantity", ["apjn", "kernel", "product", "correlation"])
def test_theory_is_drawn_on_the_axes_of_the_measurement(ax: Axes, quantity: Any) -> None:
    torch.manual_seed(0)
    model = mlp(512, 4, inputs=64, outputs=512, activation="tanh", sigma_w=1.5)
    profile = critinit.measure(model, torch.randn(16, 64), probes=4)
    predicted = theory.predict(model, kernel=float(profile.kernel[0]))
    plot.comparison({"measured": profile, "theory": predicted}, ax, quantity)
    there, theirs = line(ax, "measured"), line(ax, "theory")
    assert list(there.get_xdata()) == list(theirs.get_xdata())
    assert theirs.get_ydata() == pytest.approx(there.get_ydata(), rel=0.1, abs=0.05)
    assert theirs.get_color() == styles(["theory"])[0].colour


@pytest.mark.parametrize("quantity", ["apjn", "kernel", "product", "correlation"])
@pytest.mark.parametrize("subject", [single, dead, deep, broken], ids=lambda s: s.__name__)
def test_whatever_the_values_it_can_be_drawn(ax: Axes, quantity: Any, subject: Any) -> None:
    plot.comparison({"mine": subject()}, ax, quantity)
    assert np.isfinite(ax.get_ylim()).all()


def test_zero_and_infinity_are_marked_at_the_edges(ax: Axes) -> None:
    plot.comparison({"mine": broken()}, ax)
    assert list(line(ax, "mine: zero").get_xdata()) == [3]
    assert list(line(ax, "mine: infinite").get_xdata()) == [1]
    assert line(ax, "mine: zero").get_ydata()[0] < 0.1, "in shares of the height"
    assert line(ax, "mine: infinite").get_ydata()[0] > 0.9
    assert set(legend(ax)) == {"mine", "mine: zero", "mine: infinite"}
    drawn = line(ax, "mine").get_ydata()
    assert [bool(math.isnan(v)) for v in drawn] == [False, True, True, True, False]


def test_the_product_is_not_lost_below_what_a_float_holds(ax: Axes) -> None:
    plot.comparison({"mine": deep()}, ax, "product")
    assert line(ax, "mine").get_ydata()[-1] == pytest.approx(-798)


def test_noise_around_one_does_not_look_like_structure(ax: Axes) -> None:
    plot.comparison({"mine": profile_of([1.0, 1.01, 0.99])}, ax)
    low, high = ax.get_ylim()
    assert low < 0.5
    assert high > 2


def test_many_blocks_have_small_markers(ax: Axes) -> None:
    plot.comparison({"few": measured(), "many": deep(200)}, ax)
    assert line(ax, "many").get_markersize() < line(ax, "few").get_markersize() / 2


def test_a_history(ax: Axes) -> None:
    plot.history(descended(), ax)
    losses = [step.loss for step in descended().history]
    assert line(ax, "all blocks").get_ydata() == pytest.approx(losses)


def test_a_history_of_a_sweep_and_its_rounds(ax: Axes) -> None:
    steps = [
        *(Step(loss, [1.0], [1.0, 1.0], f"block{i}") for i, loss in enumerate([0.1, 0.0, 0.2])),
        *(Step(loss, [1.0] * 3, [1.0] * 4) for loss in (0.3, math.nan, 0.1)),
    ]
    plot.history(steps, ax)
    assert list(line(ax, "one block").get_xdata()) == [0, 1, 2]
    assert list(line(ax, "one block: zero").get_xdata()) == [1]
    assert list(line(ax, "all blocks").get_xdata()) == [3, 4, 5]


def plane() -> tuple[Any, Any, Any]:
    x, y = np.linspace(0.5, 3, 8), np.linspace(0, 2, 6)
    return x, y, x[None] ** 2 / 2 * np.ones((6, 1))


def test_a_phase_diagram(ax: Axes) -> None:
    x, y, j = plane()
    j[0, 0], j[1, 1], j[-1, -1] = 0, math.nan, math.inf
    mesh = plot.phase(x, y, j, ax, theory=([2**0.5] * 2, [0, 2]))
    logs = mesh.get_array().reshape(6, 8)
    assert logs[2, 3] == pytest.approx(math.log10(j[2, 3]))
    assert (logs[0, 0], logs[-1, -1]) == (-1, 1), "at the ends of the colours"
    assert np.ma.getmaskarray(logs)[1, 1], "left out"
    assert mesh.get_clim() == (-1, 1), "1 is in the middle"
    assert legend(ax) == ["theory"]
    assert [a.get_ylabel() for a in ax.figure.axes] == ["", "$J$"]
    labels = {text.get_text() for text in ax.texts}
    assert {"0.5", "1", "2"} <= labels


def test_the_line_of_j_1_is_where_it_should_be(ax: Axes) -> None:
    x, y, j = plane()
    plot.phase(x, y, j, ax, colorbar=False)
    bold = [c for c in ax.collections if np.all(c.get_linewidth() == 2.0)]
    at = np.concatenate([p.vertices[:, 0] for c in bold for p in c.get_paths()])
    assert at == pytest.approx(math.sqrt(2), abs=0.03), "J = x²/2"
    assert len(ax.figure.axes) == 1


@pytest.mark.parametrize("value", [1.0, 0.0, math.nan, 50.0])
def test_a_phase_diagram_of_one_value(ax: Axes, value: float) -> None:
    plot.phase([1, 2, 3], [1, 2], np.full((2, 3), value), ax)


def test_what_makes_no_sense_is_refused(ax: Axes) -> None:
    with pytest.raises(plot.PlotError, match="there is no profile"):
        plot.comparison({}, ax)
    with pytest.raises(plot.PlotError, match="quantity='J' is not known"):
        plot.comparison({"a": measured()}, ax, "J")  # type: ignore[arg-type]
    with pytest.raises(plot.PlotError, match="the history is empty"):
        plot.history([], ax)
    with pytest.raises(plot.PlotError, match=r"j has the shape \(3, 2\)"):
        plot.phase([1, 2, 3], [1, 2], np.ones((3, 2)), ax)
    with pytest.raises(plot.PlotError, match="limit=1"):
        plot.phase([1, 2], [1, 2], np.ones((2, 2)), ax, limit=1)


def test_without_axes_there_is_a_new_figure() -> None:
    axes = plot.profile(measured())
    assert axes.figure.axes == [axes]
    plt.close(axes.figure)


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(f"No module named {name!r}")
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(plot.PlotError, match=r"pip install 'critinit\[plot\]'"):
        plot.profile(measured())


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_every_style_is_seen_on_its_ground_and_told_apart_in_grey() -> None:
    for style in STYLES:
        assert contrast(style.colour, "#ffffff") >= 4.5
        assert contrast(style.on_dark, "#181e27") >= 4.5
    for one, other in itertools.combinations(STYLES, 2):
        assert one.marker != other.marker
        assert one.dash != other.dash


def test_a_name_keeps_its_look_whoever_it_stands_beside() -> None:
    assert indices(["after"]) == indices(["before", "after"])[1:] == indices(["AutoInit"])
    assert indices(["mine", "kaiming"])[1] == indices(["Kaiming"])[0]
    assert len(set(indices(["mine", "yours", "after", "before", "measured"]))) == 5
    assert len(indices([f"network {i}" for i in range(20)])) == 20


def test_ticks() -> None:
    assert [tick_label(t) for t in log_ticks(-1.4, 0.4)] == ["0.05", "0.1", "0.2", "0.5", "1", "2"]
    assert [tick_label(t) for t in log_ticks(-3.2, 4.1)] == ["0.01", "1", "100", "10⁴"]
    assert tick_label(math.log10(2e-5)) == "2·10⁻⁵"
    assert linear_ticks(0, 1) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1])
    assert linear_ticks(-0.2, 1.2, whole=True) == [0, 1]
    assert [written_log(x) for x in (0, 4.9, -5, -4.0001, math.nan, math.inf)] == [
        "1",
        "79400",
        "1.00·10⁻⁵",
        "1.00·10⁻⁴",
        "–",
        "∞",
    ]
