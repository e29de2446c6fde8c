"""Train a recipe: in one process or several, on any device, resumable at every checkpoint."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from critinit._state import random_state
from critinit.errors import CritinitError
from critinit.measurement import measure
from critinit.training import _parts as parts
from critinit.training import checkpoint
from critinit.training.checkpoint import Progress
from critinit.training.directory import Directory
from critinit.training.errors import DivergedError, TrainingError
from critinit.training.images import Images, mixed, mixing, read, test_batches, training_batches
from critinit.training.initialize import build, check, initialize
from critinit.training.order import Order, seed_of
from critinit.training.recipe import Recipe

Row = dict[str, float]
_SAVE_SECONDS = 300.0


@dataclass(frozen=True)
class Outcome:
    """What a training came to: the metrics of every epoch, and the trained network."""

    rows: list[Row]
    model: nn.Module

    @property
    def accuracy(self) -> float:
        """On the test images, after the last epoch."""
        return self.rows[-1]["test_accuracy"]


def train(
    recipe: Recipe,
    directory: str | Path,
    init: str = "autoinit",
    *,
    seed: int = 0,
    data_directory: str | Path | None = None,
    workers: int = 0,
    save_seconds: float = _SAVE_SECONDS,
    device: str | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    finished: Callable[[Row], None] | None = None,
) -> Outcome:
    """Initialize the network of ``recipe``, train it, and test it after each epoch.

    Everything is written to ``directory``: ``run.json`` (exactly what was run),
    ``initialization.json`` (J and K before and after), ``metrics.csv``, TensorBoard's files,
    checkpoints, and ``model.safetensors`` at the end. A run that was killed goes on from its last
    checkpoint when it is started again, to the same numbers.

    Under ``torchrun`` or ``accelerate launch`` each batch is divided among the processes.

    Args:
        recipe: What to train; see `find`.
        directory: A folder of its own.
        init: A name of `critinit.baselines`; ``"autoinit"`` as the recipe's tuning says.
        seed: Of everything random.
        data_directory: Where the data is, if not in the usual place.
        workers: Processes that load images; 0 for none.
        save_seconds: How often to write a checkpoint, besides at the end of each epoch.
        device: Instead of the best there is, such as ``"cpu"``.
        progress: Called with what is done, how much of it, and of how much.
        finished: Called with the metrics of each epoch.

    Raises:
        DivergedError: The loss is NaN or infinite; it names the block that is.
    """
    check(init)
    folder = Path(directory)
    with parts.accelerate_state(), random_state(seed_of(seed)):
        run = _Run(recipe, folder, init, seed, workers, save_seconds, device, progress)
        try:
            run.prepare(read(recipe, data_directory))
            while run.progress.epoch < recipe.epochs:
                row = run.epoch()
                if finished and run.is_main:
                    finished(row)
            return run.outcome()
        finally:
            run.directory.close()


class _Run:
    """A training under way."""

    def __init__(
        self,
        recipe: Recipe,
        folder: Path,
        init: str,
        seed: int,
        workers: int,
        save_seconds: float,
        device: str | None,
        progress: Callable[[str, int, int], None] | None,
    ) -> None:
        self.recipe = recipe
        self.folder = folder
        self.directory = Directory(folder, recipe, init, seed)
        self.init = init
        self.seed = seed
        self.workers = workers
        self.save_seconds = save_seconds
        self.report = progress or (lambda what, done, total: None)
        self.accelerator = parts.accelerator(recipe, device)
        self.is_main = self.accelerator.is_main_process
        self.progress = Progress()

    def prepare(self, images: Images) -> None:
        """Network, optimizer and schedule: fresh, or from the last checkpoint."""
        recipe, accelerator = self.recipe, self.accelerator
        self.images = images
        self.classes = images.train.classes
        self.order = Order(len(images.train), recipe.batch, recipe.repeats, self.seed)
        self._check_sizes()
        if self.is_main:
            self.directory.open()
        accelerator.wait_for_everyone()
        self.resumed = checkpoint.exists(self.folder)
        model = build(recipe, self.classes, seed_of(self.seed))
        if self.resumed:
            checkpoint.load_weights(self.folder, model)
        else:
            self._initialize(model)
        self.outputs = parts.outputs(model, self.classes)
        model = parts.synchronized(model, accelerator)
        optimizer = parts.optimizer(recipe, model)
        self.schedule = parts.schedule(recipe, optimizer)
        self.model, self.optimizer = accelerator.prepare(model, optimizer)
        if self.resumed:
            self._resume()
        self.mix = mixing(recipe, self.outputs)
        self.board: Any = parts.board(self.folder, self.progress.epoch) if self.is_main else None

    def _initialize(self, model: nn.Module) -> None:
        result = initialize(
            model,
            self.recipe,
            self.images,
            self.init,
            self.seed,
            self.accelerator.device,
            lambda done, total: self.report("initializing", done, total),
        )
        if result is not None and self.is_main:
            self.directory.write_initialization(result.to_dict())

    def _check_sizes(self) -> None:
        processes = self.accelerator.num_processes
        if self.recipe.batch % (2 * processes) and processes > 1:
            raise TrainingError(
                f"batch={self.recipe.batch} cannot be divided among {processes} processes: give a "
                f"multiple of {2 * processes}."
            )
        if not len(self.order):
            raise TrainingError(
                f"batch={self.recipe.batch} is more than the {len(self.images.train)} images to "
                "train on. Set a smaller batch."
            )

    def _resume(self) -> None:
        inner = getattr(self.optimizer, "optimizer", self.optimizer)
        device = self.accelerator.device
        self.progress, scaler = checkpoint.load_progress(self.folder, inner, device)
        if scaler and self.accelerator.scaler is not None:
            self.accelerator.scaler.load_state_dict(scaler)

    def epoch(self) -> Row:
        """Train to the end of the present epoch, and test."""
        self.schedule.step(self.progress.epoch)
        lr = self.optimizer.param_groups[0]["lr"]
        self._train()
        loss, right, seen = self.progress.sums
        row: Row = {"epoch": self.progress.epoch + 1, "lr": lr}
        row |= {"train_loss": loss / seen, "train_accuracy": right / seen}
        row |= dict(zip(("test_loss", "test_accuracy"), self._test(), strict=True))
        rows = [*self.progress.rows, row]
        self.progress = Progress(self.progress.epoch + 1, rows=rows)
        if self.is_main:
            self.directory.write_metrics(rows)
            self._show(row)
        self._save()
        return row

    def _show(self, row: Row) -> None:
        for key, value in row.items():
            if key != "epoch":
                self.board.add_scalar(key, value, row["epoch"])
        self.board.flush()

    def _train(self) -> None:
        accelerator, progress = self.accelerator, self.progress
        batches = training_batches(
            self.images,
            self.recipe,
            self.order,
            progress.epoch,
            progress.step,
            accelerator.process_index,
            accelerator.num_processes,
            self.workers,
        )
        self.model.train()
        saved = time.monotonic()
        for x, y in batches:
            sums = self._step(x.to(accelerator.device), y.to(accelerator.device))
            progress.sums = [a + b for a, b in zip(progress.sums, sums, strict=True)]
            progress.step += 1
            self.report(f"epoch {progress.epoch + 1}", progress.step, len(self.order))
            if self._all_agree(time.monotonic() - saved > self.save_seconds):
                self._save()
                saved = time.monotonic()

    def _step(self, x: Tensor, y: Tensor) -> list[float]:
        """One step of the optimizer; the sums of loss, right answers and images over all."""
        where = (self.seed, self.progress.epoch, self.progress.step)
        x, targets = mixed(self.mix, x, y, self.outputs, self.recipe.smoothing, *where)
        torch.manual_seed(seed_of(*where, self.accelerator.process_index))  # of dropout
        with self.accelerator.autocast():
            logits = self.model(x)
        loss = F.cross_entropy(logits.float(), targets)
        right = (logits.detach().argmax(1) == targets.argmax(1)).sum()
        sums = torch.stack([loss.detach() * len(x), right, torch.full_like(loss, len(x))])
        totals: list[float] = self.accelerator.reduce(sums, "sum").tolist()
        if not torch.isfinite(torch.tensor(totals[0])):
            raise self._diverged(x)
        self.optimizer.zero_grad()
        self.accelerator.backward(loss)
        self.optimizer.step()
        return totals

    def _all_agree(self, wanted: bool) -> bool:
        """What the first process wants: all have to save at the same step."""
        if self.accelerator.num_processes == 1:
            return wanted
        flag = torch.tensor(float(wanted and self.is_main), device=self.accelerator.device)
        return bool(self.accelerator.reduce(flag, "sum"))

    def _diverged(self, x: Tensor) -> DivergedError:
        model = self.accelerator.unwrap_model(self.model)
        try:
            measure(model, x)
            where = "Every block is finite, but the loss is not."
        except CritinitError as error:
            where = str(error)
        return DivergedError(
            f"the loss is not finite at step {self.progress.step + 1} of epoch "
            f"{self.progress.epoch + 1}: {where} Lower the learning rate ({self.recipe.lr:g}), or "
            "initialize in another way."
        )

    @torch.no_grad()
    def _test(self) -> tuple[float, float]:
        """Mean loss and accuracy over the whole test set."""
        accelerator = self.accelerator
        self.model.eval()
        sums = torch.zeros(3, device=accelerator.device)
        model = accelerator.unwrap_model(self.model)
        batches = test_batches(
            self.images,
            self.recipe,
            accelerator.process_index,
            accelerator.num_processes,
            self.workers,
        )
        for done, (images, labels) in enumerate(batches):
            self.report("testing", done, len(batches))
            x, y = images.to(accelerator.device), labels.to(accelerator.device)
            with accelerator.autocast():
                logits = model(x).float()
            right = (logits.argmax(1) == y).sum()
            loss = F.cross_entropy(logits, y, reduction="sum")
            sums += torch.stack([loss, right, torch.full_like(loss, len(x))])
        loss_sum, right_sum, seen = accelerator.reduce(sums, "sum").tolist()
        return loss_sum / seen, right_sum / seen

    def _save(self) -> None:
        if self.is_main:
            model = self.accelerator.unwrap_model(self.model)
            inner = getattr(self.optimizer, "optimizer", self.optimizer)
            scaler = self.accelerator.scaler
            extra = scaler.state_dict() if scaler is not None else None
            checkpoint.save(self.folder, model, inner, self.progress, extra)
        self.accelerator.wait_for_everyone()

    def outcome(self) -> Outcome:
        """Also when there was nothing left to do."""
        model = self.accelerator.unwrap_model(self.model, keep_fp32_wrapper=False)
        if self.is_main:
            checkpoint.save_model(self.folder / "model.safetensors", model)
            self.board.close()
        self.accelerator.wait_for_everyone()
        return Outcome(self.progress.rows, model)
