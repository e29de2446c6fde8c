"""Real models of timm, torchvision and Hugging Face, built from scratch with random weights."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import timm
import torch
import torchvision
import transformers
from cases import boundaries
from torch import nn

import critinit

IDS = torch.randint(100, (2, 12), generator=torch.Generator().manual_seed(0))
SMALL = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3}
TEXT = {**SMALL, "vocab_size": 100, "num_attention_heads": 2}


def timm_model(name: str, size: int) -> Callable[[], tuple[nn.Module, Any]]:
    return lambda: (timm.create_model(name), torch.randn(2, 3, size, size))


def gpt2() -> tuple[nn.Module, Any]:
    config = transformers.GPT2Config(
        vocab_size=100, n_embd=32, n_layer=3, n_head=2, bos_token_id=0, eos_token_id=0
    )
    return transformers.GPT2LMHeadModel(config), {"input_ids": IDS}


def llama() -> tuple[nn.Module, Any]:
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**TEXT))
    return model, {"input_ids": IDS, "attention_mask": torch.ones_like(IDS)}


def bert() -> tuple[nn.Module, Any]:
    model = transformers.BertForSequenceClassification(transformers.BertConfig(**TEXT))
    return model, {"input_ids": IDS, "labels": torch.zeros(2, dtype=torch.long)}


def t5() -> tuple[nn.Module, Any]:
    config = transformers.T5Config(
        vocab_size=100, d_model=32, d_kv=16, d_ff=64, num_layers=2, num_heads=2
    )
    return transformers.T5EncoderModel(config), {"input_ids": IDS}


MODELS: dict[str, tuple[Callable[[], tuple[nn.Module, Any]], int, str, str]] = {
    # how it is made, how many blocks, the second and the last
    "timm vit": (timm_model("test_vit", 160), 8, "blocks.0", "head"),
    "timm resnet": (timm_model("test_resnet", 160), 9, "conv1.3", "fc"),
    "timm convnext": (timm_model("test_convnext", 160), 14, "stages.0.blocks.0", "head.fc"),
    "timm efficientnet": (
        timm_model("test_efficientnet", 160),
        16,
        "blocks.0.0.conv",
        "classifier",
    ),
    "timm crossvit": (timm_model("crossvit_tiny_240", 240), 4, "blocks.1", ""),
    "timm nfnet": (timm_model("test_nfnet", 96), 0, "", "head.fc"),
    "torchvision densenet": (
        lambda: (torchvision.models.densenet121(), torch.randn(2, 3, 64, 64)),
        10,
        "features.pool0",
        "classifier",
    ),
    "torchvision googlenet": (
        lambda: (torchvision.models.googlenet(init_weights=False), torch.randn(2, 3, 96, 96)),
        17,
        "maxpool1",
        "fc",
    ),
    "hf gpt2": (gpt2, 4, "transformer.h.1", "lm_head"),
    "hf llama": (llama, 4, "model.layers.1", "lm_head"),
    "hf bert": (bert, 5, "bert.encoder.layer.1", "classifier"),
    "hf t5": (t5, 4, "encoder.block.0.layer.1", ""),
}


@pytest.mark.parametrize("name", list(MODELS))
def test_blocks_are_found_measured_and_run(name: str) -> None:
    make, blocks, second, last = MODELS[name]
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the models' own construction
        model, inputs = make()
    model.eval()  # transformers' dropout would make every run different
    chain = critinit.trace(model, inputs)
    if blocks:
        assert len(chain) == blocks, chain.names
    assert second in ("", chain.names[1])
    assert last in ("", chain.names[-1])
    profile = critinit.measure(model, inputs)
    assert profile.names == chain.names
    assert torch.isfinite(profile.apjn).all()
    assert (profile.apjn[:-1] > 0).all()
    h = boundaries(chain, inputs)
    for i in range(len(chain)):
        out = chain.run(i, h[i] if len(h[i]) > 1 else h[i][0])
        for got, expected in zip(out if isinstance(out, tuple) else (out,), h[i + 1], strict=True):
            torch.testing.assert_close(got, expected)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["vgg19_bn", "resnet50", "swin_v2_t", "efficientnet_b0", "vit_b_32"]
)
def test_torchvision_in_training_mode(name: str) -> None:
    torch.manual_seed(0)
    model = torchvision.models.get_model(name, weights=None)
    profile = critinit.measure(model, torch.randn(2, 3, 224, 224))
    assert torch.isfinite(profile.apjn).all()
