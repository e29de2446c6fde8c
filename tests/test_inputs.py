"""What may be passed as inputs, and what is refused in one clear sentence."""

from __future__ import annotations

import pytest
import torch
from asserts import StateOf
from cases import CASES, TinyLanguageModel, cnn, mlp
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import critinit


def same(a: critinit.Profile, b: critinit.Profile) -> None:
    torch.testing.assert_close(a.apjn, b.apjn)
    torch.testing.assert_close(a.kernel, b.kernel)


def test_every_form_of_one_batch() -> None:
    model, x = mlp(nn.Tanh), torch.randn(6, 6)
    expected = critinit.measure(model, x)
    same(critinit.measure(model, (x,)), expected)
    same(critinit.measure(model, {"input": x}), expected)
    same(critinit.measure(model, [x]), expected)
    same(critinit.measure(model, iter([x])), expected)
    targets = torch.zeros(6, dtype=torch.long)
    same(critinit.measure(model, [(x, targets)]), expected)
    same(critinit.measure(model, [[x, targets]]), expected)
    same(critinit.measure(model, [{"input": x, "labels": targets}]), expected)
    same(critinit.measure(model, DataLoader(TensorDataset(x, targets), batch_size=6)), expected)


def test_a_data_loader_with_a_short_last_batch() -> None:
    model, x = cnn(norm=True), torch.randn(10, 2, 8, 8)
    loader = DataLoader(TensorDataset(x, torch.zeros(10)), batch_size=4)
    profile = critinit.measure(model, loader)
    assert profile.batches == 3
    assert profile.batch_size == 4
    assert torch.isfinite(profile.apjn_se).all()


def test_models_of_several_arguments_get_as_many_as_they_need() -> None:
    model = nn.Bilinear(3, 4, 5)
    a, b, y = torch.randn(2, 3), torch.randn(2, 4), torch.zeros(2)
    same(critinit.measure(model, [(a, b, y)]), critinit.measure(model, (a, b)))


def test_late_inputs_are_held_fixed() -> None:
    """J of the last block is that of a · condition alone."""
    model, inputs = CASES["two inputs"].build()
    profile = critinit.measure(model, inputs, method="exact")
    chain = critinit.trace(model, inputs)
    assert len(chain) == 3
    h = torch.randn(4, 8)
    expected = model.last(torch.tanh(h) * inputs["condition"])
    torch.testing.assert_close(chain.run(2, h), expected)
    assert float(profile.kernel[0]) == pytest.approx(
        float(torch.cat([inputs["a"], inputs["b"]], 1).square().mean()), rel=1e-5
    )


def test_integer_inputs_start_after_the_embedding() -> None:
    model, ids = CASES["language model"].build()
    profile = critinit.measure(model, ids)
    embedded = model.tokens(ids).detach()
    assert float(profile.kernel[0]) == pytest.approx(float(embedded.square().mean()), rel=1e-5)


def test_output_is_picked() -> None:
    class Heads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 3), nn.Linear(8, 5)

        def forward(self, x: Tensor) -> dict[str, Tensor]:
            h = torch.tanh(self.body(x))
            return {"a": self.a(h), "b": self.b(h)}

    model, x = Heads(), torch.randn(4, 6)
    assert critinit.trace(model, x).names == ["body", "a"]
    assert critinit.trace(model, x, output=lambda out: out["b"]).names == ["body", "b"]
    profile = critinit.measure(model, x, output=lambda out: out["b"].sum(1))
    assert profile.names == ["body", "b"]


class Detached(nn.Module):
    """Nothing leads back from the output to the input."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x.detach().round())


class NoGradient(Detached):
    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            return self.linear(x)


class Counts(Detached):
    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x).argmax(1)


class OnlyForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return x * 2


class NoBackward(Detached):
    def forward(self, x: Tensor) -> Tensor:
        return OnlyForward.apply(self.linear(x))


def bad_values(value: float) -> Tensor:
    x = torch.randn(6, 6)
    x[2, 3] = value
    return x


def mistakes() -> dict[str, tuple[nn.Module, object, type[critinit.CritinitError], str]]:
    plain, x = mlp(nn.Tanh), torch.randn(6, 6)
    return {
        "empty batch": (plain, torch.zeros(0, 6), critinit.InputError, "is empty"),
        "no batches": (plain, [], critinit.InputError, "holds no batch"),
        "no tensor": (plain, {}, critinit.InputError, "holds no tensor"),
        "unknown kind": (plain, 3.0, critinit.InputError, "float, which is not understood"),
        "text": (plain, "cifar10", critinit.InputError, "str, which is not understood"),
        "dataset": (plain, TensorDataset(x), critinit.InputError, "DataLoader"),
        "batch of text": (plain, ["a", "b"], critinit.InputError, "a batch is a str"),
        "nan": (plain, bad_values(float("nan")), critinit.InputError, "1 value"),
        "infinity": (plain, bad_values(float("inf")), critinit.InputError, "NaN or infinite"),
        "device": (plain, x.to("meta"), critinit.InputError, "on meta and the model on cpu"),
        "shape": (plain, torch.randn(6, 7), critinit.ModelError, "mat1 and mat2"),
        "missing argument": (nn.Bilinear(6, 6, 2), x, critinit.ModelError, "missing 1 required"),
        "no weights": (nn.ReLU(), x, critinit.ModelError, "no weights"),
        "batchnorm of one": (
            cnn(norm=True),
            torch.randn(1, 2, 8, 8),
            critinit.InputError,
            "1 is a BatchNorm2d in training mode",
        ),
        "no path": (Detached(), x, critinit.NotDifferentiableError, "does not depend"),
        "no gradient": (NoGradient(), x, critinit.NotDifferentiableError, "without gradients"),
        "integer output": (Counts(), x, critinit.NotDifferentiableError, "a tensor of torch.int64"),
        "no backward": (NoBackward(), x, critinit.NotDifferentiableError, "block 0"),
        "no output": (
            nn.Sequential(nn.Linear(6, 6), Nothing()),
            x,
            critinit.NotDifferentiableError,
            "a NoneType",
        ),
    }


class Nothing(nn.Module):
    def forward(self, x: Tensor) -> None:
        return None


@pytest.mark.parametrize("name", list(mistakes()))
def test_mistakes_get_one_clear_error(name: str) -> None:
    model, inputs, kind, message = mistakes()[name]
    before = StateOf(model)
    with pytest.raises(kind, match=message):
        critinit.measure(model, inputs)
    before.assert_same()
    with pytest.raises(critinit.CritinitError):
        critinit.measure(model, inputs, method="exact", probes=3)
    before.assert_same()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"probes": 0}, "probes=0"),
        ({"span": 0}, "span=0"),
        ({"method": "fd"}, "'vjp', 'jvp' or 'exact'"),
        ({"noise": "uniform"}, "'gaussian' or 'rademacher'"),
    ],
)
def test_options_out_of_range(options: dict[str, object], message: str) -> None:
    with pytest.raises(critinit.InputError, match=message):
        critinit.measure(mlp(nn.Tanh), torch.randn(6, 6), **options)


def test_batches_that_do_not_fit_together() -> None:
    class Long(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(5))

        def forward(self, h: Tensor) -> Tensor:
            for layer in self.layers[: h.shape[0]]:
                h = layer(h)
            return h

    model, batches = Long(), [torch.randn(3, 4), torch.randn(5, 4)]
    with pytest.raises(critinit.InputError, match="5 blocks, the first one through 3") as caught:
        critinit.measure(model, batches)
    assert len(caught.value.profile) == 3
    chain = critinit.trace(model, batches[0])
    with pytest.raises(critinit.ModelError, match="Trace it again"):
        critinit.measure(chain, batches[1])


def test_batchnorm_of_one_is_fine_in_evaluation() -> None:
    profile = critinit.measure(cnn(norm=True).eval(), torch.randn(1, 2, 8, 8))
    assert len(profile) == 5
    assert torch.isnan(profile.correlation).all()


def test_a_head_of_zeros_is_reported() -> None:
    model, x = mlp(nn.Tanh), torch.randn(6, 6)
    nn.init.zeros_(model[-1].weight)
    profile = critinit.measure(model, x)
    assert float(profile.apjn[-1]) == 0
    assert float(profile.log_apjn[-1]) == float("-inf")
    assert not profile.is_critical(tol=100)
    assert "no gradient passes block l=4, 8" in str(profile)


def test_language_models_of_other_precision() -> None:
    model = TinyLanguageModel().bfloat16()
    profile = critinit.measure(model, torch.randint(11, (3, 5)))
    assert profile.apjn.dtype == torch.float64
    assert torch.isfinite(profile.apjn).all()
