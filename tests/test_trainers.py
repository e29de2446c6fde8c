"""The README's recipes for trainers that others wrote: each line is run as it stands there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import critinit
from critinit.models import mlp

README = (Path(__file__).parents[1] / "README.md").read_text()


def run_recipe(start: str, **scope: Any) -> None:
    (line,) = [line for line in README.splitlines() if line.startswith(start)]
    exec(line, scope | {"critinit": critinit})


@pytest.mark.filterwarnings("ignore:::lightning", "ignore:`isinstance.treespec")
def test_lightning() -> None:
    lightning = pytest.importorskip("lightning")

    class Classifier(lightning.LightningModule):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.network = mlp(64, 10, inputs=64)

        def forward(self, x: Tensor) -> Tensor:
            return self.network(x)

        def training_step(self, batch: list[Tensor], index: int) -> Tensor:
            x, y = batch
            return nn.functional.cross_entropy(self(x), y)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), 0.1)

    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(256, 64), torch.randint(10, (256,))), 64)
    module = Classifier()
    run_recipe("critinit.tune_(module", module=module, loader=loader)
    assert critinit.measure(module, loader).is_critical()
    tuned = module.network[1].weight.clone()
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="cpu", enable_checkpointing=False, num_sanity_val_steps=0, **quiet
    )
    trainer.fit(module, loader)
    assert not torch.equal(module.network[1].weight, tuned)


def test_hugging_face(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    accelerate = pytest.importorskip("accelerate")
    torch.manual_seed(0)
    config = transformers.ViTConfig(
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=64,
        image_size=16,
        patch_size=4,
        num_labels=5,
    )
    model = transformers.ViTForImageClassification(config)
    pictures = [{"pixel_values": torch.randn(3, 16, 16), "labels": i % 5} for i in range(32)]
    trainer = transformers.Trainer(
        model,
        transformers.TrainingArguments(
            str(tmp_path), per_device_train_batch_size=8, max_steps=2, report_to=[], use_cpu=True
        ),
        train_dataset=pictures,
    )
    before = critinit.measure(
        model, trainer.get_train_dataloader(), output=lambda out: out.logits
    ).log_apjn
    run_recipe("critinit.tune_(trainer", trainer=trainer)
    after = critinit.measure(
        model, trainer.get_train_dataloader(), output=lambda out: out.logits
    ).log_apjn
    assert after[1:].abs().max() < before[1:].abs().max() / 2
    try:
        trainer.train()
        assert trainer.state.global_step == 2
    finally:
        accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
