"""Every figure at its smallest scale: computed, kept, drawn, and not computed again."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from figures.runs import steady, training
from matplotlib.image import imread

from critinit.figures import FigureError, _sweep, find, names, run


def changes_for(name: str, folder: Path) -> dict[str, Any]:
    """The figures of trainings need some."""
    if not name.endswith("-training"):
        return {}
    runs = folder / "runs"
    for model in ("resmlp", "vgg"):
        training(runs, f"{model}-a", model, "kaiming", [0.1, 0.2])
        training(runs, f"{model}-b", model, "kaiming", [0.2, 0.3, 0.4])
        training(runs, f"{model}-c", model, "autoinit", [0.3])
    return {"runs": str(runs)}


@pytest.mark.parametrize("name", names())
def test_smoke(name: str, tmp_path: Path) -> None:
    changes = changes_for(name, tmp_path)
    figure = find(name)
    drawn = run(name, "smoke", folder=tmp_path, changes=changes)

    wanted = figure.points(figure.settled("smoke", changes))
    assert drawn.computed == drawn.points == len(wanted) > 1
    assert drawn.findings
    assert "nan" not in " ".join(drawn.findings)
    picture = imread(drawn.picture)
    assert picture.shape[0] > 200
    assert picture.std() > 0.05, "an empty sheet"

    head, columns, *rows = drawn.table.read_text().splitlines()
    assert head.startswith("# {")
    assert columns.split(",")[-3:] == ["seconds", "critinit", "torch"]
    assert len(rows) == len(wanted)

    before = drawn.table.read_bytes()
    again = run(name, "smoke", folder=tmp_path, changes=changes)
    assert again.computed == 0
    assert again.findings == drawn.findings
    assert drawn.table.read_bytes() == before


def test_the_papers_numbers() -> None:
    """What the captions and the appendix say, and how many points they count."""
    counted = {"relu-scan": 2 * 1200, "bn-phase": 2 * 400}
    said: dict[str, dict[str, Any]] = {
        "relu-one-step": {"depth": 10, "width": 500, "batch": 256, "data": "cifar10"},
        "relu-scan": {"depth": 10, "width": 500, "batch": 256, "data": "cifar10", "steps": 980},
        "bn-phase": {"depth": 30, "width": 500, "batch": 256, "draws": 50},
        "bn-batch": {"depth": 30, "width": 500, "draws": 50},
        "resmlp-profile": {"eta": 0.03, "probes": 2, "steps": 392, "batch": 256},
        "vgg-profile": {"eta": 0.01, "probes": 3, "steps": 392, "batch": 128, "lambda": 0.05},
    }
    for name, numbers in said.items():
        figure = find(name)
        paper = figure.settings["paper"]
        assert paper | numbers == paper, name
        assert len(figure.points(paper)) == counted.get(name, len(figure.points(paper)))


def test_a_figure_of_some_points_can_be_drawn() -> None:
    """While the others are still being computed."""
    figure = find("bn-phase")
    settings = figure.settings["smoke"]
    row = {"mu": 0.0, "sigma_w": 0.5, "sigma_b": 0.0, "j": 1.4, "j_se": 0.1, "j_first": 1.0}
    figure.draw(settings, [row])


def test_other_settings_make_another_table(tmp_path: Path) -> None:
    one = run("relu-one-step", "smoke", folder=tmp_path, changes={"sigma_w": [1.0, 2.0, 2]})
    other = run("relu-one-step", "smoke", folder=tmp_path, changes={"sigma_w": [1.0, 3.0, 2]})
    assert one.table != other.table
    assert other.computed == other.points
    with open(one.table) as file:
        assert len(list(csv.reader(file))) == 2 + one.points


def test_workers_find_the_same(tmp_path: Path) -> None:
    alone = run("relu-one-step", "smoke", folder=tmp_path / "alone")
    workers = run("relu-one-step", "smoke", folder=tmp_path / "workers", workers=2)
    assert steady(alone, "relu-one-step") == steady(workers, "relu-one-step")


def test_missing_points_do_not_depend_on_the_others(tmp_path: Path) -> None:
    """A plane that is computed in two halves is the plane."""
    whole = run("relu-scan", "smoke", folder=tmp_path / "whole")
    part = tmp_path / "part" / whole.table.name
    part.parent.mkdir()
    lines = whole.table.read_text().splitlines(keepends=True)
    part.write_text("".join(lines[:2] + lines[2::3]))
    rest = run("relu-scan", "smoke", folder=part.parent)
    assert 0 < rest.computed < rest.points
    assert steady(rest, "relu-scan") == steady(whole, "relu-scan")


def test_noise_instead_of_images_is_said_in_the_picture() -> None:
    figure = find("relu-one-step")
    row = {"loss": "jll", "sigma_w": 1.0, "j_before": [1.0] * 3, "j_after": [1.0] * 3}
    for source, words in (("gaussian", "Gaussian noise"), ("cifar10", "CIFAR-10, normalized")):
        picture = figure.draw(figure.settled("smoke", {"data": source}), [row])
        assert words in picture._supxlabel.get_text()


@pytest.mark.parametrize(
    ("name", "scale", "options", "words"),
    [
        ("relu-scam", "smoke", {}, "Did you mean 'relu-scan'"),
        ("relu-scan", "tiny", {}, "smoke"),
        ("relu-scan", "smoke", {"changes": {"sigmaw": 1}}, "Did you mean 'sigma_w'"),
        ("relu-scan", "smoke", {"changes": {"data": "cifar100"}}, "Did you mean cifar10"),
        ("relu-scan", "smoke", {"changes": {"depth": 40}}, "12 at most"),
        ("relu-scan", "smoke", {"changes": {"depth": "deep"}}, "3 is what it is otherwise"),
        ("relu-scan", "smoke", {"workers": 0}, "from 1 up"),
        ("relu-scan", "smoke", {"cluster": "tcp://127.0.0.1:1"}, "no Dask scheduler"),
        ("loss-choice", "smoke", {"changes": {"data": "gaussian"}}, "no labels"),
        ("loss-choice", "smoke", {"changes": {"losses": ["jkx"]}}, "is unknown"),
        ("vgg-training", "smoke", {"changes": {"runs": "none"}}, "holds no runs"),
    ],
)
def test_errors_say_what_to_do(
    name: str,
    scale: Any,
    options: dict[str, Any],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_sweep, "_PATIENCE", 1)
    with pytest.raises(FigureError, match=words):
        run(name, scale, folder=tmp_path, **options)


def test_best_runs_are_told_apart(tmp_path: Path) -> None:
    """The last accuracy decides; a run that went on counts as it is now."""
    changes = changes_for("vgg-training", tmp_path)
    found = run("vgg-training", "smoke", folder=tmp_path, changes=changes).findings
    assert "kaiming: test accuracy 40.0% (training 20.0%) after 3 epochs" in found[1]
    assert "best of 2 runs" in found[1]

    training(tmp_path / "later", "vgg-a", "vgg", "kaiming", [0.1, 0.2, 0.3, 0.9])
    (tmp_path / "later/vgg-a/metrics.csv").replace(tmp_path / "runs/vgg-a/metrics.csv")
    again = run("vgg-training", "smoke", folder=tmp_path, changes=changes)
    assert again.computed == 1
    assert "kaiming: test accuracy 90.0%" in again.findings[1]
