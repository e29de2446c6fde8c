"""Whole trainings in miniature: what they compute, leave behind, and do when they are stopped."""

from __future__ import annotations

import csv
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from safetensors.torch import load_file
from timm.data import Mixup
from timm.optim import Lamb
from torch import nn

import critinit
from critinit import models
from critinit._files import WriteError
from critinit._state import random_state
from critinit.keep import keep_multipliers
from critinit.training import DivergedError, Recipe, TrainingError, find, train, train_grid
from critinit.training._parts import synchronized
from critinit.training.images import TuningBatches, _Augmented, _training_transform, read
from critinit.training.initialize import build, initialize
from critinit.training.order import Order, seed_of

CPU = torch.device("cpu")


def metrics(folder: Path) -> list[dict[str, str]]:
    with (folder / "metrics.csv").open() as file:
        return list(csv.DictReader(file))


def assert_same_run(one: Path, other: Path) -> None:
    """To the last bit."""
    assert metrics(one) == metrics(other)
    first, second = (load_file(folder / "model.safetensors") for folder in (one, other))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_what_a_run_leaves_behind(recipe: Recipe, tmp_path: Path) -> None:
    seen: list[dict[str, float]] = []
    torch.manual_seed(5)
    world = (torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate())
    outcome = train(recipe, tmp_path / "run", seed=3, device="cpu", finished=seen.append)
    assert torch.equal(torch.get_rng_state(), world[0])
    assert (np.random.get_state()[1].tolist(), random.getstate()) == world[1:]
    folder = tmp_path / "run"
    described = json.loads((folder / "run.json").read_text())
    assert described["recipe"] == json.loads(json.dumps(recipe.to_dict()))
    assert (described["init"], described["seed"]) == ("autoinit", 3)
    assert described["versions"]["torch"] == version("torch")
    rows = metrics(folder)
    assert [row["epoch"] for row in rows] == ["1", "2", "3"]
    assert [float(row["lr"]) for row in rows] == pytest.approx([0.01, 0.01, 0.001])
    assert [row["test_accuracy"] for row in rows] == [f"{r['test_accuracy']:.9g}" for r in seen]
    assert outcome.accuracy == seen[-1]["test_accuracy"]
    tuned = json.loads((folder / "initialization.json").read_text())
    assert len(tuned["history"]) == recipe.tuning.steps + 1
    plain = models.build("resmlp", image=16, outputs=4, **recipe.options)
    plain.load_state_dict(load_file(folder / "model.safetensors"))
    x = torch.randn(2, 3, 16, 16)
    outcome.model.eval()
    assert torch.equal(plain(x), outcome.model(x))
    assert (
        not list(folder.rglob("*.pt")) + list(folder.rglob("*.pkl")) + list(folder.rglob("*.bin"))
    )
    assert len(list(folder.glob("checkpoint-*"))) == 2, "the ones before are gone"
    assert scalars(folder)["test_accuracy"] == pytest.approx([r["test_accuracy"] for r in seen])


def scalars(folder: Path) -> dict[str, list[float]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    return {tag: [s.value for s in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def test_the_loop_against_a_plain_one(recipe: Recipe, tmp_path: Path) -> None:
    """timm's own parts, put together by hand."""
    outcome = train(replace(recipe, epochs=1), tmp_path / "run", seed=1, device="cpu")
    images = read(recipe)
    model = build(recipe, 4, seed_of(1))
    initialize(model, recipe, images, "autoinit", 1, CPU)
    weights = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": others, "weight_decay": 0.0}, {"params": weights}]
    optimizer = Lamb(groups, lr=0.01, weight_decay=1e-4)
    mix = Mixup(mixup_alpha=0.8, label_smoothing=0.0, num_classes=4)
    dataset = _Augmented(images.train, _training_transform(images, recipe))
    loss_sum = right = seen = 0.0
    for step, items in enumerate(Order(48, 8, 3, 1).batches(0)):
        views = [dataset[item] for item in items]
        x, y = torch.stack([v[0] for v in views]), torch.tensor([v[1] for v in views])
        with random_state(seed_of(1, 0, step)):
            x, targets = mix(x, y)
        logits = model(x)
        loss = -(targets * F.log_softmax(logits, 1)).sum(1).mean()
        loss_sum += float(loss.detach()) * len(x)
        right += float((logits.argmax(1) == targets.argmax(1)).sum())
        seen += len(x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert outcome.rows[0]["train_loss"] == pytest.approx(loss_sum / seen, rel=1e-5)
    assert outcome.rows[0]["train_accuracy"] == right / seen
    for trained, expected in zip(outcome.model.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(trained, expected, rtol=1e-4, atol=1e-6)


def test_tested_on_all_test_images(recipe: Recipe, tmp_path: Path, pictures: Path) -> None:
    outcome = train(replace(recipe, epochs=1), tmp_path / "run", device="cpu")
    images = read(recipe)
    model = outcome.model.eval()
    batches = TuningBatches(replace(images, train=images.test), recipe, 1, 12, 0)
    assert len(list(batches)) == len(images.test) == 12
    dataset = batches.dataset
    with torch.no_grad():
        right = [int(model(dataset[i, 0][0][None]).argmax()) == dataset[i, 0][1] for i in range(12)]
    assert outcome.accuracy == pytest.approx(sum(right) / 12)


class StopError(Exception):
    """Raised in the middle of an epoch."""


def stopped_at(epoch: int, step: int) -> Any:
    def progress(what: str, done: int, total: int) -> None:
        if (what, done) == (f"epoch {epoch}", step):
            raise StopError

    return progress


def narrow_vgg(recipe: Recipe) -> Recipe:
    """With BatchNorm's statistics, and multipliers kept frozen."""
    return replace(
        find("vgg19_bn-cifar10-cpu"),
        data=recipe.data,
        options={"layers": 11, "batchnorm": True, "width": 2},
        tuning=replace(find("vgg19_bn-cifar10").tuning, steps=2, batch=8, probes=1),
        epochs=2,
        drops=(1,),
        batch=8,
        examples=0,
    )


def with_dropout(*arguments: Any) -> nn.Module:
    model = build(*arguments)
    model.norm = nn.Dropout(0.3)
    return model


@pytest.mark.parametrize("kind", ["resmlp", "vgg", "skipinit", "dropout"])
def test_a_stopped_run_goes_on_to_the_same_numbers(
    kind: str, recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    init = "autoinit"
    if kind == "vgg":
        recipe = narrow_vgg(recipe)
    elif kind == "skipinit":
        recipe, init = replace(recipe, model="bn_mlp", options={"width": 8, "depth": 2}), "skipinit"
    elif kind == "dropout":
        monkeypatch.setattr("critinit.training.loop.build", with_dropout)
    one, other = tmp_path / "whole", tmp_path / "stopped"
    train(recipe, one, init, device="cpu")
    for epoch, step in ((1, 3), (recipe.epochs, 5)):
        with pytest.raises(StopError):
            train(
                recipe,
                other,
                init,
                device="cpu",
                save_seconds=0,
                progress=stopped_at(epoch, step),
            )
    train(recipe, other, init, device="cpu")
    assert_same_run(one, other)
    assert metrics(one)[0].keys() >= {"epoch", "train_loss", "train_accuracy", "test_accuracy"}


SCRIPT = """
import sys, torch
from pathlib import Path
sys.path.insert(0, {tests!r})
torch.set_num_threads(1)
from critinit.training import Recipe, Tuning, train
values = {values!r}
recipe = Recipe(**(values | {{"tuning": Tuning(**values["tuning"])}}))
train(recipe, {folder!r}, device="cpu", save_seconds={save_seconds!r})
"""


def script(recipe: Recipe, folder: Path, save_seconds: float = 300.0) -> str:
    return SCRIPT.format(
        tests=str(Path(__file__).parent),
        values=recipe.to_dict(),
        folder=str(folder),
        save_seconds=save_seconds,
    )


def test_killed_by_the_system(recipe: Recipe, tmp_path: Path) -> None:
    """``kill -9`` in the middle of an epoch, twice; nothing but the clock decides where."""
    long = replace(recipe, epochs=6)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    train(long, whole, device="cpu")
    for wanted in (1, 3):
        process = subprocess.Popen([sys.executable, "-c", script(long, killed, 0.0)])
        while process.poll() is None and not reached(killed, wanted):
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, "it was still at work"
    (killed / "checkpoint-9999-000000.safetensors").write_bytes(b"half")
    train(long, killed, device="cpu")
    assert_same_run(whole, killed)


def reached(folder: Path, epoch: int) -> bool:
    current = folder / "checkpoint.json"
    return current.exists() and int(json.loads(current.read_text())["weights"][11:15]) >= epoch


INITIALIZED = """
import torch.distributed as dist
from critinit.training._parts import synchronized
from critinit.training.images import read
from critinit.training.initialize import build, initialize
from safetensors.torch import save_file
dist.init_process_group("gloo")
model = build(recipe, 4, 0)
initialize(model, recipe, read(recipe), "autoinit", 0, torch.device("cpu"))
save_file(model.state_dict(), {folder!r} + f"/{{dist.get_rank()}}.safetensors")
"""


def before_and_after(recipe: Recipe, folder: Path) -> tuple[str, str]:
    before, train_, after = script(recipe, folder).rpartition("train(recipe")
    return before, train_ + after


TORCHRUN = ["torch.distributed.run", "--standalone", "--nproc-per-node=2"]
ACCELERATE = [  # its --cpu is for MPI; this starts the processes, and the script says which device
    "accelerate.commands.launch",
    "--multi_gpu",
    "--num_processes=2",
    "--num_machines=1",
    "--mixed_precision=no",
    "--dynamo_backend=no",
]


@pytest.mark.parametrize("launcher", [TORCHRUN, ACCELERATE], ids=["torchrun", "accelerate"])
def test_two_processes_give_the_same_curve(
    launcher: list[str], recipe: Recipe, tmp_path: Path
) -> None:
    single, double = tmp_path / "single", tmp_path / "double"
    train(recipe, single, device="cpu")
    file = tmp_path / "run.py"
    file.write_text(INITIALIZED.format(folder=str(tmp_path)).join(before_and_after(recipe, double)))
    launched(launcher, file)
    for one, two in zip(metrics(single), metrics(double), strict=True):
        assert float(two["train_loss"]) == pytest.approx(float(one["train_loss"]), rel=1e-4)
        assert float(two["test_loss"]) == pytest.approx(float(one["test_loss"]), rel=1e-4)
        assert two["train_accuracy"] == one["train_accuracy"]
    first, second = (load_file(f / "model.safetensors") for f in (single, double))
    for name, value in first.items():
        torch.testing.assert_close(second[name], value, rtol=1e-3, atol=1e-5)
    ranks = [load_file(tmp_path / f"{rank}.safetensors") for rank in (0, 1)]
    assert all(torch.equal(ranks[0][name], ranks[1][name]) for name in first), "tuned alike"
    tuned = [json.loads((f / "initialization.json").read_text()) for f in (single, double)]
    assert tuned[0]["multipliers"] == pytest.approx(tuned[1]["multipliers"], rel=1e-5)


def launched(launcher: list[str], file: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-m", *launcher, file],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_imagenet_path(pictures: Path, tmp_path: Path) -> None:
    short = find("resmlp-s12-imagenet-cpu")
    recipe = replace(
        short,
        data=f"folder:{pictures}",
        options=dict(short.options) | {"width": 16, "depth": 2, "outputs": 7},
        tuning=replace(short.tuning, steps=2, batch=4),
        batch=8,
    )
    outcome = train(recipe, tmp_path / "run", device="cpu")
    assert len(outcome.rows) == 2
    assert outcome.model.head.out_features == 7
    assert all(np.isfinite(row["train_loss"]) for row in outcome.rows)
    lrs = [row["lr"] for row in outcome.rows]
    assert lrs == pytest.approx([0.001, (0.001 + 1e-5) / 2]), "half of a cosine's way down"


def test_mixed_precision(recipe: Recipe, tmp_path: Path) -> None:
    exact = train(replace(recipe, epochs=1), tmp_path / "exact", "original", device="cpu")
    rough = train(
        replace(recipe, epochs=1, precision="bf16"), tmp_path / "rough", "original", device="cpu"
    )
    one, two = exact.rows[0]["train_loss"], rough.rows[0]["train_loss"]
    assert two == pytest.approx(one, rel=0.01)
    assert two != one
    assert all(p.dtype == torch.float32 for p in rough.model.parameters())


def test_a_grid(recipe: Recipe, tmp_path: Path) -> None:
    recipe = replace(recipe, epochs=1, lrs=(0.01, 0.02, 1e30))
    started: list[float] = []
    rows = train_grid(
        recipe, tmp_path, "kaiming", device="cpu", starting=lambda point: started.append(point.lr)
    )
    assert started == [0.01, 0.02, 1e30]
    finished = rows[:2]
    for row in finished:
        alone = metrics(tmp_path / f"lr={row['lr']},weight_decay=0.0001")[-1]
        assert f"{row['test_accuracy']:.9g}" == alone["test_accuracy"]
    best = [row["test_accuracy"] for row in rows if row["best"]]
    assert best
    assert set(best) == {max(row["test_accuracy"] for row in finished)}
    assert "not finite" in str(rows[2]["note"])
    with (tmp_path / "grid.csv").open() as file:
        written = list(csv.DictReader(file))
    assert [row["lr"] for row in written] == ["0.01", "0.02", "1e+30"]
    before = (tmp_path / "lr=0.01,weight_decay=0.0001" / "checkpoint.json").stat().st_mtime_ns
    train_grid(recipe, tmp_path, "kaiming", device="cpu")
    after = (tmp_path / "lr=0.01,weight_decay=0.0001" / "checkpoint.json").stat().st_mtime_ns
    assert after == before, "finished points are not run again"


def test_a_loss_that_is_not_finite_names_the_block(recipe: Recipe, tmp_path: Path) -> None:
    with pytest.raises(DivergedError, match=r"step \d+ of epoch 1: .*block \d+ \("):
        train(replace(recipe, lr=1e30), tmp_path / "run", "kaiming", device="cpu")


def test_a_loss_that_is_infinite_though_no_block_is(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    infinite = lambda *_, **__: torch.tensor(torch.inf, requires_grad=True)  # noqa: E731
    monkeypatch.setattr("critinit.training.loop.F.cross_entropy", infinite)
    with pytest.raises(DivergedError, match="Every block is finite"):
        train(recipe, tmp_path / "run", "kaiming", device="cpu")


def test_another_run_in_the_same_folder(recipe: Recipe, tmp_path: Path) -> None:
    short = replace(recipe, epochs=1)
    train(short, tmp_path / "run", "kaiming", device="cpu")
    for changed, init, seed, words in (
        (replace(short, lr=0.5), "kaiming", 0, "its lr is 0.01, not 0.5"),
        (short, "orthogonal", 0, "its init is kaiming, not orthogonal"),
        (short, "kaiming", 1, "its seed is 0, not 1"),
    ):
        with pytest.raises(TrainingError, match=words):
            train(changed, tmp_path / "run", init, seed=seed, device="cpu")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("")
    with pytest.raises(TrainingError, match="not empty and holds no run"):
        train(short, tmp_path / "other", device="cpu")


def test_two_runs_in_one_folder_at_once(recipe: Recipe, tmp_path: Path) -> None:
    def start_another(row: dict[str, float]) -> None:
        with pytest.raises(TrainingError, match="is in use"):
            train(recipe, tmp_path / "run", "kaiming", device="cpu")

    outcome = train(recipe, tmp_path / "run", "kaiming", device="cpu", finished=start_another)
    assert len(outcome.rows) == recipe.epochs
    train(recipe, tmp_path / "run", "kaiming", device="cpu")


def test_what_a_killed_start_leaves_does_not_matter(recipe: Recipe, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".critinit-0123.json").write_text("{")
    train(replace(recipe, epochs=1), tmp_path / "run", "kaiming", device="cpu")
    assert not list((tmp_path / "run").glob(".critinit-*"))


def test_checkpoints_that_do_not_fit(recipe: Recipe, tmp_path: Path) -> None:
    short = replace(recipe, epochs=1)
    wide = replace(short, options=dict(short.options) | {"width": 12})
    train(short, tmp_path / "run", "kaiming", device="cpu")
    train(wide, tmp_path / "wide", "kaiming", device="cpu")
    name = json.loads((tmp_path / "run" / "checkpoint.json").read_text())["weights"]
    (tmp_path / "run" / name).write_bytes((tmp_path / "wide" / name).read_bytes())
    with pytest.raises(TrainingError, match="of another model"):
        train(short, tmp_path / "run", "kaiming", device="cpu")
    progress = name.replace(".safetensors", ".progress.safetensors")
    (tmp_path / "wide" / progress).write_bytes(b"no such thing")
    with pytest.raises(TrainingError, match="cannot be read"):
        train(wide, tmp_path / "wide", "kaiming", device="cpu")


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """As on a full disk: no file may grow beyond ``size`` bytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_full_disk_leaves_the_checkpoint_before(recipe: Recipe, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with pytest.raises(StopError):
        train(recipe, folder, device="cpu", save_seconds=0, progress=stopped_at(2, 3))
    before = (folder / "checkpoint.json").read_text()
    with largest_file(4000), pytest.raises(WriteError, match="cannot be written"):
        train(recipe, folder, device="cpu", save_seconds=0)
    assert (folder / "checkpoint.json").read_text() == before
    train(recipe, folder, device="cpu")
    assert len(metrics(folder)) == 3


@pytest.mark.parametrize(
    ("changes", "init", "words"),
    [
        ({}, "autoinitt", "no initialization 'autoinitt'.*'autoinit'"),
        ({"data": "folder:/nowhere"}, "kaiming", "no folder /nowhere"),
        ({"data": "gaussian"}, "kaiming", "no pictures with labels"),
        ({"batch": 64}, "kaiming", "more than the 48 images"),
        ({"optimizer": "lam"}, "kaiming", "optimizer=lam"),
        ({"options": {"outputs": 3}}, "kaiming", "3 outputs, and .* 4 classes"),
        ({"model": "resnlp"}, "kaiming", "no built-in model"),
    ],
)
def test_bad_input(
    changes: dict[str, Any], init: str, words: str, recipe: Recipe, tmp_path: Path
) -> None:
    with pytest.raises(critinit.CritinitError, match=words):
        train(replace(recipe, **changes), tmp_path / "run", init, device="cpu")


def test_the_callers_own_accelerate_stays(recipe: Recipe, tmp_path: Path) -> None:
    own = Accelerator(cpu=True, mixed_precision="bf16")
    try:
        with pytest.raises(TrainingError, match="precision=no does not work here"):
            train(recipe, tmp_path / "run", "kaiming", device="cpu")
        assert own.state.mixed_precision == "bf16"
    finally:
        AcceleratorState._reset_state(reset_partial_state=True)


class TwoGpus:
    """As far as `synchronized` looks."""

    num_processes = 2
    device = torch.device("cuda")


def test_batchnorm_is_synchronized_on_gpus_only() -> None:
    model = build(find("vgg19_bn-cifar10-cpu"), 10, 0)
    assert any(isinstance(m, nn.SyncBatchNorm) for m in synchronized(model, TwoGpus).modules())
    model = build(find("vgg19_bn-cifar10-cpu"), 10, 0)
    keep_multipliers(model, {"features.1.weight": 2.0}, "frozen")
    with pytest.raises(TrainingError, match="among several GPUs"):
        synchronized(model, TwoGpus)


def test_an_empty_tree(tmp_path: Path, recipe: Recipe) -> None:
    (tmp_path / "train").mkdir()
    with pytest.raises(TrainingError, match="holds no images to train on"):
        train(replace(recipe, data=f"folder:{tmp_path}"), tmp_path / "run", device="cpu")
