"""``critinit train``: one run, a grid, and what it refuses."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from cli.terminal import PROGRAM, call, environment, refused
from picture_tree import write_tree

from critinit import training

SMALL = ["--set=image=16", "--set=batch=8", "--set=epochs=2", "--set=drops=1"]
SMALL += ["--set=examples=0", "--set=tuning.steps=2", "--set=tuning.batch=4", "--device=cpu"]
RECIPE = "resmlp-s12-cifar10-cpu"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree of generated images."""
    return write_tree(tmp_path_factory.mktemp("tree"), 3, {"train": 8, "val": 2}, (16, 16))


def settings(tree: Path) -> list[str]:
    return [*SMALL, f"--set=data=folder:{tree}"]


def test_without_a_recipe_all_are_listed() -> None:
    ended = call("train", width=120)
    assert ended.status == 0
    for name in training.names():
        assert name in ended.out


def test_a_run(tree: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    ended = call("train", RECIPE, *settings(tree), f"--out={folder}", "--init=original")
    assert ended.status == 0, ended.err
    with (folder / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    lines = ended.out.splitlines()
    assert [line.split()[:2] for line in lines[:2]] == [["epoch", "1"], ["epoch", "2"]]
    for line, row in zip(lines, rows, strict=False):
        assert f"test {float(row['test_accuracy']):.2%}" in line
    assert f"{float(rows[-1]['test_accuracy']):.2%} of the test images" in ended.out
    assert "from original, seed 0" in ended.err
    again = call("train", RECIPE, *settings(tree), f"--out={folder}", "--init=original")
    assert again.out.splitlines() == lines[2:], "nothing is left to do"
    quiet = call("train", RECIPE, *settings(tree), f"--out={folder}", "--init=original", "-q")
    assert (quiet.out, quiet.err) == ("", "")


def test_a_grid(tree: Path, tmp_path: Path) -> None:
    options = [*settings(tree), "--set=epochs=1", f"--out={tmp_path / 'grid'}"]
    options.remove("--set=epochs=2")
    options += ["--set=lrs=0.01,1e30", "--set=weight_decays=1e-5,1e-4"]
    ended = call("train", RECIPE, *options, "--grid", "--init=kaiming")
    assert ended.status == 0, ended.err
    assert ended.out.count("diverged") == 2 * 2
    assert ended.out.count(" best") >= 1
    assert (tmp_path / "grid" / "grid.csv").is_file()


def test_ctrl_c_ends_with_130_and_leaves_a_checkpoint(tree: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    options = [*settings(tree), f"--out={folder}", "--init=original", "--set=epochs=500"]
    options.remove("--set=epochs=2")
    process = subprocess.Popen(
        [*PROGRAM, "train", RECIPE, *options],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while process.poll() is None and not (folder / "checkpoint.json").exists():
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130, err
    assert err.splitlines()[-1] == "critinit: interrupted"
    assert not list(folder.glob(".critinit-*")), "nothing half-written"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["resmlp-s12-cifar"], "Did you mean 'resmlp-s12-cifar10'"),
        ([RECIPE, "--init=lsvu"], "Did you mean 'lsuv'"),
        ([RECIPE, "--set=lr=fast"], "lr=fast: give a number"),
        ([RECIPE, "--set=learning=1"], "a recipe has no 'learning'"),
        ([RECIPE, "--set=tuning.step=1"], "Did you mean 'tuning.steps'"),
        ([RECIPE, "--device=cuda:1"], "CUDA_VISIBLE_DEVICES"),
        ([RECIPE, "--set=data=folder:nowhere", "--out=OUT"], "There is no folder nowhere"),
    ],
)
def test_refusals(arguments: list[str], words: str, tmp_path: Path) -> None:
    given = [a.replace("OUT", str(tmp_path / "run")) for a in arguments]
    line = refused("train", *given) if "--out=OUT" not in arguments else call("train", *given).err
    assert words in line


def test_a_loss_that_diverges(tree: Path, tmp_path: Path) -> None:
    options = [*settings(tree), f"--out={tmp_path / 'run'}", "--init=kaiming", "--set=lr=1e30"]
    ended = call("train", RECIPE, *options)
    assert ended.status == 2
    assert "the loss is not finite at step" in ended.err
    assert "block" in ended.err
