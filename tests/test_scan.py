"""J against |B|: what is measured, what is recommended, and what is refused."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
import timm
import torch
import torchvision
from asserts import StateOf
from cases import CASES, TinyLanguageModel, cnn, mlp
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import critinit
from critinit.models import mlp as wide_mlp
from critinit.scan import BatchScan, batch_scan


def pre_bn(width: int = 100, depth: int = 4) -> nn.Module:
    """The paper's pre-BN network without skip connections (μ = 0)."""
    torch.manual_seed(0)
    layers: list[nn.Module] = [nn.Linear(20, width)]
    for _ in range(depth):
        layers += [nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, width)]
    return nn.Sequential(*layers)


def rows(n: int, width: int = 20) -> Tensor:
    return torch.randn(n, width, generator=torch.Generator().manual_seed(1))


def plain() -> nn.Module:
    torch.manual_seed(0)
    return wide_mlp(200, 6, inputs=20, outputs=200)


def test_each_size_is_measured_on_disjoint_batches_of_the_same_examples() -> None:
    model, x = pre_bn(), rows(70)
    generator = torch.Generator().manual_seed(3)
    scan = batch_scan(model, x, sizes=(64, 1, 16, 64), generator=generator, probes=2)
    assert scan.sizes == [16, 64]
    assert scan.examples == [64, 64]
    assert scan.left_out == {1: "BatchNorm in training mode has no statistics of one example"}
    reference = torch.Generator().manual_seed(3)
    for size, profile in zip(scan.sizes, scan.profiles, strict=True):
        batches = list(x[:64].split(size))
        expected = critinit.measure(model, batches, probes=2, generator=reference)
        assert torch.equal(profile.apjn, expected.apjn)
        assert torch.equal(profile.apjn_se, expected.apjn_se)
        assert profile.names == expected.names
    assert torch.equal(generator.get_state(), reference.get_state())


def test_the_cost_of_a_small_size_is_bounded() -> None:
    scan = batch_scan(mlp(nn.Tanh), rows(256, 6), sizes=(1, 2, 4, 256))
    assert scan.examples == [32, 64, 128, 256]


def test_with_batchnorm_j_depends_on_the_batch_size() -> None:
    scan = batch_scan(pre_bn(), rows(256), probes=4)
    assert scan.sizes == [2, 4, 8, 16, 32, 64, 128, 256]
    worst = scan.gap.abs().amax(1)
    assert worst[0] > 1, "two examples are normalized to ±1 whatever they are"
    assert bool(((scan.gap.abs() / scan.gap_se).amax(1)[:2] > 5).all())
    assert (worst[:-1].diff()[:3] < 0).all()
    assert not any(scan.agrees[:2])
    assert 8 <= scan.recommended <= 128
    assert f"use |B| = {scan.recommended}: log J is that of |B| = 256" in scan.verdict()


@pytest.mark.parametrize("make", [plain, lambda: pre_bn().eval()], ids=["no norm", "eval"])
def test_without_batch_statistics_it_does_not(make: Any) -> None:
    """Every difference is noise of the size its standard error says, and any size will do."""
    gaps, errors = [], []
    for seed in range(4):
        generator = torch.Generator().manual_seed(seed)
        scan = batch_scan(make(), rows(128), sizes=(1, 8, 128), probes=4, generator=generator)
        assert scan.recommended == 1
        gaps.append(scan.gap[:-1])
        errors.append(scan.gap_se[:-1])
    scores = torch.stack(gaps) / torch.stack(errors)
    assert float(scores.abs().max()) < 5
    assert float(scores.square().mean()) < 2, "the standard errors are too small"
    assert "depends on |B| by no more than 0.05" in scan.verdict()


def scan_of(*logs: list[float], se: float = 0.001, tol: float = 0.05) -> BatchScan:
    """A scan of sizes 2, 4, 8, … with these log J; the input block is far off."""
    profile = critinit.measure(mlp(nn.Tanh, depth=len(logs[0])), torch.randn(2, 6))
    profiles = []
    for i, row in enumerate(logs):
        j = torch.tensor([10.0**i, *torch.tensor(row).exp()], dtype=torch.float64)
        fields = {**vars(profile), "apjn": j, "apjn_se": se * j}
        profiles.append(critinit.Profile(**fields))
    return BatchScan([2 ** (i + 1) for i in range(len(logs))], profiles, tol, {})


def test_the_recommendation() -> None:
    assert scan_of([0.3, 0], [0.06, 0], [0.04, -0.04], [0, 0]).recommended == 8
    assert scan_of([0, 0], [0, 0.2], [0, 0], [0, 0]).recommended == 8, "an accidental agreement"
    assert scan_of([0.01, 0], [0, 0.02]).recommended == 2
    assert scan_of([0.2, 0], [0, 0]).recommended == 4
    assert scan_of([0.2, 0], [0, 0], tol=0.3).recommended == 2
    assert scan_of([0.2, 0], [0, 0], se=0.1).recommended == 2, "within its standard error"
    dead = float("-inf")
    assert scan_of([0.0, dead], [0, dead]).recommended == 2, "a block that passes no gradient"
    assert scan_of([0.0, dead], [0, 0]).recommended == 4


def test_the_verdict_says_when_it_is_not_certain() -> None:
    assert "J still changes from 2 on" in scan_of([0.2, 0], [0, 0]).verdict()
    assert "more probes" not in scan_of([0.2, 0], [0, 0]).verdict()
    assert "± 0.14: more probes would tell" in scan_of([0.2, 0], [0, 0], se=0.1).verdict()
    assert "± 0.14: more probes would tell" in scan_of([9, 0], [0, 0], se=0.1).verdict()


def test_the_table_and_the_dict() -> None:
    scan = batch_scan(pre_bn(), rows(64), sizes=(1, 2, 32, 64, 128))
    table = str(scan).splitlines()
    assert table[0] == "Sequential: J against |B|, compared with |B| = 64, tol 0.05"
    assert table[1].split() == [
        "|B|",
        "examples",
        "|Δ",
        "log",
        "J|",
        "±",
        "agrees",
        "worst",
        "block",
    ]
    size, examples, gap, se, agrees, block = table[2].split()
    assert (size, examples, agrees) == ("2", "64", "no")
    assert float(gap) == pytest.approx(float(scan.gap[0].abs().max()), rel=0.01)
    assert float(se) > 0
    assert block in scan.profiles[0].names[1:]
    assert table[4].split() == ["64", "64", "0", "0", "yes", "-"]
    assert table[5].split(":")[1] == " BatchNorm in training mode has no statistics of one example"
    assert table[6].strip() == "128 left out: only 64 examples were given"
    assert table[-1] == scan.verdict()
    found = json.loads(json.dumps(scan.to_dict()))
    assert found["sizes"] == [2, 32, 64]
    assert found["recommended"] == scan.recommended
    assert list(found["left_out"]) == ["1", "128"]
    assert found["profiles"][0]["apjn"] == scan.profiles[0].apjn.tolist()
    assert str(pickle.loads(pickle.dumps(scan))) == str(scan)


def test_every_form_of_inputs() -> None:
    model, x = cnn(norm=True), torch.randn(20, 2, 8, 8)
    expected = batch_scan(model, x, sizes=(2, 16))
    targets = torch.zeros(20)
    loader = DataLoader(TensorDataset(x, targets), batch_size=3)
    singles = [row.unsqueeze(0) for row in x]
    for inputs in [(x,), {"input": x}, iter([x]), loader, singles]:
        found = batch_scan(model, inputs, sizes=(2, 16))
        for one, other in zip(found.profiles, expected.profiles, strict=True):
            assert torch.equal(one.apjn, other.apjn)


def test_a_wrapped_model_is_looked_into_for_its_arguments() -> None:
    a, b, targets = torch.randn(6, 3), torch.randn(6, 4), torch.zeros(6)
    scan = batch_scan(nn.DataParallel(nn.Bilinear(3, 4, 5)), [(a, b, targets)], sizes=(2, 6))
    assert scan.profiles[0].model == "Bilinear"


def test_no_more_is_read_than_needed() -> None:
    read = []

    def batches() -> Any:
        for i in range(100):
            read.append(i)
            yield torch.randn(4, 6)

    batch_scan(mlp(nn.Tanh), batches(), sizes=(2, 10))
    assert read == [0, 1, 2]


def test_several_arguments_token_ids_blocks_and_output() -> None:
    model, inputs = CASES["two inputs"].build()
    assert batch_scan(model, inputs, sizes=(1, 4)).profiles[0].names == ["mix", "hidden", "last"]
    scan = batch_scan(TinyLanguageModel(), torch.randint(11, (8, 5)), sizes=(1, 8))
    assert scan.profiles[1].names == ["blocks.0", "blocks.1", "head"]
    scan = batch_scan(mlp(nn.Tanh), rows(8, 6), (2, 8), blocks=["3"], output=lambda y: y[:, :2])
    assert [len(profile) for profile in scan.profiles] == [2, 2]


@pytest.mark.parametrize("name", ["cnn batchnorm", "dropout", "parametrized", "vit"])
def test_the_model_is_untouched(name: str) -> None:
    model, inputs = CASES[name].build()
    state = StateOf(model)
    first = batch_scan(model, torch.cat([inputs, inputs]), sizes=(2, 6))
    state.assert_same()
    again = batch_scan(model, torch.cat([inputs, inputs]), sizes=(2, 6))
    assert torch.equal(first.gap, again.gap), "the default generator is fresh"


def mistakes() -> dict[str, tuple[nn.Module, object, dict[str, Any], str]]:
    model, x = mlp(nn.Tanh), rows(8, 6)
    bilinear = nn.Bilinear(3, 3, 2)
    ragged = (torch.randn(4, 3), torch.randn(5, 3))
    return {
        "too few examples": (model, x, {"sizes": (4, 16)}, "only 8 examples were given"),
        "one size": (model, x, {"sizes": (4,)}, "leaves 1 to measure .none left out"),
        "no size": (model, x, {"sizes": ()}, "pass batch sizes from 1 up"),
        "size zero": (model, x, {"sizes": (0, 4)}, "pass batch sizes from 1 up"),
        "tol": (model, x, {"tol": 0.0}, "tol=0.0"),
        "probes": (model, x, {"sizes": (2, 4), "probes": 0}, "probes=0"),
        "empty": (model, [], {}, "holds no batch"),
        "nothing in it": (model, {}, {}, "cannot be cut"),
        "no examples": (model, x[:0], {}, "cannot be cut"),
        "a scalar": (model, torch.tensor(1.0), {}, "cannot be cut"),
        "ragged": (bilinear, ragged, {}, r"cannot be cut .* \[\(4, 3\), \(5, 3\)\]"),
        "other widths": (model, [x, rows(8, 7)], {}, "cannot be joined"),
        "other arguments": (model, [x, {"input": x, "more": x}], {}, "cannot be joined"),
        "batchnorm of one": (cnn(True), torch.randn(2, 2, 8, 8), {"sizes": (1, 2)}, "statistics"),
    }


@pytest.mark.parametrize("kind", list(mistakes()))
def test_mistakes_are_named(kind: str) -> None:
    model, inputs, options, message = mistakes()[kind]
    state = StateOf(model)
    with pytest.raises(critinit.InputError, match=message):
        batch_scan(model, inputs, **options)
    state.assert_same()


def test_real_models() -> None:
    torch.manual_seed(0)
    images = torch.randn(32, 3, 48, 48)
    resnet = batch_scan(torchvision.models.resnet18(), images, sizes=(2, 8, 32))
    assert not resnet.agrees[0]
    assert resnet.recommended > 2
    vit = batch_scan(timm.create_model("test_vit", img_size=48), images, sizes=(1, 8, 32), probes=2)
    assert vit.recommended == 1
    small = batch_scan(timm.create_model("test_resnet"), images, sizes=(2, 32))
    assert float(small.gap[0].abs().max()) > 0.05
