"""Networks from everywhere, with inputs that fit them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cli.terminal import call

import critinit
from critinit.cli.sources import FAMILIES, find
from critinit.data import batch
from critinit.models import mlp

OWN = Path(__file__).with_name("networks.py")
GPT2 = {
    "model_type": "gpt2",
    "architectures": ["GPT2LMHeadModel"],
    **dict.fromkeys(("n_layer", "n_head"), 2),
    "n_embd": 32,
    "vocab_size": 99,
    "bos_token_id": 1,
    "eos_token_id": 1,
}


def measured(tmp_path: Path, *arguments: str) -> dict[str, Any]:
    file = tmp_path / "found.json"
    ended = call("measure", *arguments, "--quiet", "--json", str(file))
    assert (ended.status, ended.out, ended.err) == (0, "", "")
    found: dict[str, Any] = json.loads(file.read_text())
    return found


CASES = {
    "mlp --set depth=3": ("Sequential", 4, "784"),
    "mlp --set depth=3 --data digits": ("Sequential", 4, "1×8×8"),
    "mlp --set depth=3 --size 20": ("Sequential", 4, "20"),
    "resmlp_s12 --size 16 --batch 2 --set patch=4": ("ResMLP", 14, "3×16×16"),
    "vgg11_bn --data digits --size 32 --batch 2": ("VGG", 14, "1×32×32"),
    "timm:resnet10t --size 32 --batch 4": ("ResNet", 9, "3×32×32"),
    "timm:resnet10t --set in_chans=1 --data digits --size 32 --batch 4": ("ResNet", 9, "1×32×32"),
    "timm:vit_tiny_patch16_224 --set img_size=32 --batch 2": (
        "VisionTransformer",
        14,
        "3×32×32",
    ),
    "torchvision:resnet18 --data digits --size 32 --batch 4": ("ResNet", 11, "3×32×32"),
    "OWN:plain --size 16": ("Sequential", 3, "16"),
    "OWN:of_a_kind --size 16 --set kind=ReLU": ("Sequential", 1, "16"),
    "OWN:tied --data tokens:50 --size 7": ("Tied", 2, "7"),
    "hf:CONFIG": ("GPT2LMHeadModel", 3, "64"),
    "hf:CONFIG --size 5 --set n_layer=3": ("GPT2LMHeadModel", 4, "5"),
    "hf:vit --set num_hidden_layers=1 --set image_size=32 --batch 2": ("ViTModel", 2, "3×32×32"),
}


@pytest.mark.parametrize("line", CASES)
def test_measured(line: str, tmp_path: Path) -> None:
    config = tmp_path / "tiny.json"
    config.write_text(json.dumps(GPT2))
    found = measured(
        tmp_path, *line.replace("OWN", str(OWN)).replace("CONFIG", str(config)).split()
    )
    model, blocks, example = CASES[line]
    assert (found["profile"]["model"], len(found["profile"]["names"])) == (model, blocks)
    assert found["run"]["options"]["Example"] == example


def test_it_is_what_the_library_measures(tmp_path: Path) -> None:
    found = measured(tmp_path, "mlp", "--set", "depth=4", "--data", "digits", "--seed", "3")
    generator = torch.Generator().manual_seed(3)
    inputs = batch("digits", 32, generator=generator)
    torch.manual_seed(3)
    model = mlp(depth=4, inputs=64)
    expected = critinit.measure(model, inputs, generator=generator)
    assert found["profile"] == expected.to_dict()
    assert measured(tmp_path, "mlp", "--seed", "4")["profile"] != found["profile"]


def test_several_batches_in_any_precision(tmp_path: Path) -> None:
    found = measured(tmp_path, "mlp", "--batches", "3", "--batch", "4", "--dtype", "float64")
    assert (found["profile"]["batches"], found["profile"]["batch_size"]) == (3, 4)
    assert found["run"]["options"]["Precision"] == "float64"


def test_arrays(tmp_path: Path) -> None:
    file = tmp_path / "images.npy"
    np.save(file, np.random.default_rng(0).integers(0, 255, (40, 3, 6, 6), dtype=np.uint8))
    found = measured(tmp_path, "mlp", "--data", str(file))
    assert found["run"]["options"]["Example"] == "3×6×6"


def test_nothing_is_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither pretrained weights nor pretrained backbones; and the seed decides."""

    def asked(*_: object, **__: object) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr("socket.socket.connect", asked)
    tiny = {"hf:bert": {"num_hidden_layers": "1"}}
    for model in ("timm:resnet10t", "torchvision:fcn_resnet50", "hf:bert"):
        drawn = []
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            built = find(model, tiny.get(model, {})).build(())
            drawn.append(next(p.detach() for p in built.parameters() if p.ndim > 1))
        assert torch.equal(drawn[0], drawn[1])
        assert not torch.equal(drawn[0], drawn[2])


@pytest.mark.parametrize(
    ("family", "package"),
    [("timm", "timm"), ("torchvision", "torchvision.models"), ("hf", "transformers")],
)
def test_absent_packages(family: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    ended = call("measure", f"{family}:whatever")
    assert ended.status == 2
    extra = "hf" if family == "hf" else "vision"
    assert f"pip install 'critinit[{extra}]'" in ended.err
    assert len(ended.err.splitlines()) == 1


def test_models_are_found_in_every_family() -> None:
    names = call("models", "resnet18").out.split()
    assert {"timm:resnet18", "torchvision:resnet18"} <= set(names)
    assert call("models", "hf:gpt2").out.split() == ["hf:gpt2"]
    assert set(FAMILIES) == {"timm", "torchvision", "hf"}


def test_models_says_what_cannot_be_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    ended = call("models", "resnet18")
    assert "torchvision:resnet18" in ended.out
    assert "critinit[vision]" in ended.err


def test_data_says_what_is_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRITINIT_CACHE", str(tmp_path))
    rows = {line.split()[0]: line.split()[-1] for line in call("data").out.splitlines()}
    assert (rows["digits"], rows["cifar10"]) == ("yes", "no")
