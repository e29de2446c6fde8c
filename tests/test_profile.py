"""The profile as a value: its properties, its words, its table."""

from __future__ import annotations

import json
import pickle
import re

import pytest
import torch
from cases import CASES, boundaries, mlp
from torch import nn

import critinit


@pytest.fixture
def wide() -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for _ in range(6):
        layers += [nn.Linear(400, 400), nn.Tanh()]
    return nn.Sequential(*layers[:-1]), torch.randn(8, 400)


def test_shapes_and_meaning() -> None:
    model, x = CASES["cnn batchnorm"].build()
    profile = critinit.measure(model, x)
    h = boundaries(critinit.trace(model, x), x)
    assert profile.apjn.shape == profile.apjn_se.shape == (len(profile),)
    assert profile.kernel.shape == profile.correlation.shape == (len(profile) + 1,)
    assert profile.kernel_ratio.shape == (len(profile),)
    for tensors, k in zip(h, profile.kernel, strict=True):
        assert float(k) == pytest.approx(float(tensors[0].square().mean()), rel=1e-5)
    torch.testing.assert_close(profile.kernel_ratio, profile.kernel[1:] / profile.kernel[:-1])
    for tensor in (profile.apjn, profile.apjn_se, profile.kernel, profile.correlation):
        assert tensor.is_floating_point()


def test_span_merges_blocks_without_overlap() -> None:
    model, x = CASES["functional residual"].build()
    one = critinit.measure(model, x, method="exact")
    three = critinit.measure(model, x, method="exact", span=3)
    assert three.names == ["first … layers.1", "layers.2 … layers.4", "head"]
    torch.testing.assert_close(three.kernel, one.kernel[[0, 3, 6, 7]])
    assert float(three.apjn[2]) == pytest.approx(float(one.apjn[6]), rel=1e-6)
    whole = critinit.measure(model, x, method="exact", span=100)
    assert len(whole) == 1
    (jacobian,) = [torch.autograd.functional.jacobian(model, x)]
    expected = float(jacobian.square().sum()) / jacobian[:, :, 0, 0].numel()
    assert float(whole.apjn[0]) == pytest.approx(expected, rel=1e-5)


def test_factorization(wide: tuple[nn.Module, torch.Tensor]) -> None:
    model, x = wide
    profile = critinit.measure(model, x, probes=8)
    found = profile.factorization()
    assert (found.start, found.stop) == (0, 5)
    assert found.product == pytest.approx(float(profile.apjn[:5].prod()))
    assert abs(found.ratio - 1) < 5 * (
        found.direct_se / found.direct + found.product_se / found.product + 1 / 400
    )
    one = profile.factorization(2, 3)
    assert one.product == pytest.approx(float(profile.apjn[2]))
    assert abs(one.direct - one.product) < 5 * (one.direct_se + one.product_se)
    with pytest.raises(critinit.CritinitError, match="start < stop"):
        profile.factorization(3, 3)
    with pytest.raises(critinit.CritinitError, match="without its model"):
        pickle.loads(pickle.dumps(profile)).factorization()


def test_factorization_of_a_narrow_network_is_exact_when_measured_exactly() -> None:
    model, x = CASES["mlp tanh"].build()
    profile = critinit.measure(model, x, method="exact")
    direct = profile.factorization(1, 4).direct
    head, tail = model[:1], model[1:7]
    jacobian = torch.autograd.functional.jacobian(tail, head(x).detach())
    assert direct == pytest.approx(float(jacobian.square().sum()) / (6 * 8), rel=1e-5)


def test_is_critical_leaves_out_the_input_block() -> None:
    model = mlp(nn.Identity, depth=3)
    for layer in model[2::2]:
        nn.init.orthogonal_(layer.weight)
    x = torch.randn(6, 6)
    with torch.no_grad():
        model[0].weight.mul_(100)
    profile = critinit.measure(model, x, method="exact")
    assert profile.is_critical(tol=1e-5)
    with torch.no_grad():
        model[2].weight.mul_(1.2)
    profile = critinit.measure(model, x, method="exact")
    assert not profile.is_critical(tol=0.3)
    assert profile.is_critical(tol=0.4)


def test_a_single_block_is_judged() -> None:
    assert not critinit.measure(nn.Linear(6, 6), torch.randn(4, 6)).is_critical()


def test_plain_numbers() -> None:
    model, x = mlp(nn.Tanh), torch.randn(1, 6)
    nn.init.zeros_(model[-1].weight)
    found = json.loads(json.dumps(critinit.measure(model, x).to_dict(), allow_nan=False))
    assert found["names"] == ["0", "2", "4", "6", "8"]
    assert found["apjn_se"] == [None] * 5
    assert found["apjn"][-1] == 0
    assert len(found["kernel"]) == 6
    assert found["is_critical"] is False


def test_it_survives_pickling() -> None:
    profile = critinit.measure(mlp(nn.Tanh), torch.randn(4, 6))
    again = pickle.loads(pickle.dumps(profile))
    assert str(again) == str(profile)


@pytest.mark.parametrize(
    ("scale", "word"), [(0.3, "vanish"), (3.0, "explode"), (0.0, "no gradient passes")]
)
def test_the_verdict_says_what_happens(scale: float, word: str) -> None:
    model = mlp(nn.Identity, depth=30)
    for layer in model[2::2]:
        nn.init.orthogonal_(layer.weight, gain=scale)
    profile = critinit.measure(model, torch.randn(4, 6))
    assert word in profile.verdict()
    assert profile.verdict() in str(profile)


def test_the_table_is_aligned_and_the_html_is_well_formed() -> None:
    model, x = CASES["resmlp"].build()
    profile = critinit.measure(model, x)
    lines = str(profile).splitlines()
    table = lines[1:-2]  # without the title and the two lines of the verdict
    assert len({len(line) for line in table}) == 1
    assert [line.split()[1] for line in table[2:]] == profile.names
    html = profile._repr_html_()
    assert html.count("<tr>") == len(profile) + 2
    for tag in ("table", "tr", "td", "th", "caption"):
        assert len(re.findall(f"<{tag}>", html)) == len(re.findall(f"</{tag}>", html))
    assert (
        "<Unsafe>" not in critinit.Profile(**{**vars(profile), "model": "<Unsafe>"})._repr_html_()
    )
