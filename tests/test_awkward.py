"""Models that keep tensors for themselves, switch gradients off, or overwrite their parameters."""

from __future__ import annotations

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from asserts import StateOf
from cases import CASES, boundaries
from torch import Tensor, nn

import critinit


def jacobian_norm(chain: critinit.Chain, i: int, h: Tensor) -> float:
    """By torch's own Jacobian of the block run alone."""
    jacobian = torch.autograd.functional.jacobian(lambda x: chain.run(i, x), h)
    return float(jacobian.square().sum()) / chain.run(i, h).numel()


def assert_right(model: nn.Module, x: Tensor) -> critinit.Profile:
    """J of every block, the run composed on another input, and the model, all at once."""
    before = StateOf(model)
    profile = critinit.measure(model, x, method="exact")
    chain = critinit.trace(model, x)
    before.assert_same()
    h = boundaries(chain, x)
    for i in range(len(chain)):
        expected = jacobian_norm(chain, i, h[i][0])
        assert float(profile.apjn[i]) == pytest.approx(expected, rel=1e-4)
    other = torch.randn_like(x)
    composed = other
    for i in range(len(chain)):
        composed = chain.run(i, composed)
    torch.testing.assert_close(composed, model(other))
    whole = torch.autograd.functional.jacobian(model, x)
    product = torch.autograd.functional.jacobian(lambda y: composed_run(chain, y), x)
    torch.testing.assert_close(product, whole)
    return profile


def composed_run(chain: critinit.Chain, h: Tensor) -> Tensor:
    for i in range(len(chain)):
        h = chain.run(i, h)
    return h


class Keeps(nn.Module):
    """Stores its output, for its owner to use later."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        self.saved = torch.tanh(x + self.layer(x))
        return self.saved


class UsesWhatWasKept(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c, self.d = Keeps(), Keeps(), nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        h = self.b(self.a(x))
        return self.d(torch.tanh(self.c(h) + self.a.saved))


class NoGradInside(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        with torch.no_grad():
            scale = h.abs().max()
        return self.b(torch.relu(h / scale))


class ReturnsItTwice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = self.a(x)
        return h, h


class UsesItTwice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.twice, self.b, self.c = ReturnsItTwice(), nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        h, skip = self.twice(x)
        return self.c(torch.tanh(self.b(h))) + skip


class DifferentiatesItself(nn.Module):
    """A Hamiltonian network: its output is a gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.energy = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
        self.last = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        with torch.enable_grad():
            x = x if x.requires_grad else x.requires_grad_()
            (force,) = torch.autograd.grad(self.energy(x).sum(), x, create_graph=True)
        return self.last(force)


@pytest.mark.parametrize("kind", [UsesWhatWasKept, NoGradInside, UsesItTwice])
def test_the_answer_is_right(kind: type[nn.Module]) -> None:
    torch.manual_seed(0)
    assert_right(kind(), torch.randn(4, 6))


def test_a_feature_hook_that_is_read_later() -> None:
    torch.manual_seed(0)
    features: dict[str, Tensor] = {}

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(*(nn.Linear(6, 6) for _ in range(4)))
            self.last = nn.Linear(6, 6)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(self.layers(x) * features["first"])

    model, x = Net(), torch.randn(4, 6)
    model.layers[0].register_forward_hook(lambda m, a, out: features.update(first=out))
    profile = critinit.measure(model, x, method="exact")
    assert profile.names == ["layers.0 … layers.1..layers.3", "last"]
    found = critinit.measure(model, x, method="exact", span=100)
    whole = torch.autograd.functional.jacobian(model, x)
    assert float(found.apjn[0]) == pytest.approx(float(whole.square().sum()) / 24, rel=1e-4)


def test_gradient_mode_stays_after_running_a_block() -> None:
    chain = critinit.trace(NoGradInside(), torch.randn(4, 6))
    out = chain.run(1, torch.randn(4, 6, requires_grad=True))
    assert torch.is_grad_enabled()
    assert out.requires_grad


def test_a_call_that_cannot_be_seen_is_not_replayed_as_a_constant() -> None:
    with pytest.warns(FutureWarning, match="deprecated"):
        swish = torch.jit.script(scripted)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)

        def forward(self, x: Tensor) -> Tensor:
            return self.b(swish(self.a(x)))

    model, x = Net(), torch.randn(4, 6)
    chain = critinit.trace(model, x)
    with pytest.raises(critinit.ModelError, match="cannot be seen"):
        chain.run(1, torch.randn(4, 6))
    assert critinit.measure(model, x).names == ["a", "b"]


def scripted(x: Tensor) -> Tensor:
    return x * torch.sigmoid(x)


def test_a_model_that_differentiates_inside_is_refused_or_right() -> None:
    torch.manual_seed(0)
    model, x = DifferentiatesItself(), torch.randn(4, 6)
    try:
        profile = critinit.measure(model, x, method="exact", span=100)
    except critinit.CritinitError:
        return
    whole = torch.autograd.functional.jacobian(model, x)
    assert float(profile.apjn[0]) == pytest.approx(float(whole.square().sum()) / 24, rel=1e-4)


def test_tiny_and_huge_signals() -> None:
    torch.manual_seed(0)
    layers = [nn.Linear(8, 8, bias=False, dtype=torch.float64) for _ in range(3)]
    exact = critinit.measure(nn.Sequential(*layers), torch.randn(4, 8).double(), method="exact")
    for scale in (1e-24, 1e24):
        model = nn.Sequential(*copy.deepcopy(layers)).float()
        with torch.no_grad():
            model[1].weight.mul_(scale)
        found = critinit.measure(model, torch.randn(4, 8), method="exact")
        expected = exact.apjn[1] * scale**2
        assert float(found.apjn[1]) == pytest.approx(float(expected), rel=1e-3)
        assert math.isfinite(float(found.correlation[2]))


def test_a_quantised_layer_is_not_measured_as_zero() -> None:
    class Rounds(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.from_numpy(x.detach().numpy()) + 0 * self.zero

        zero = 0

    model = nn.Sequential(nn.Linear(6, 6), Rounds(), nn.Linear(6, 6))
    with pytest.raises(critinit.NotDifferentiableError):
        critinit.measure(model, torch.randn(4, 6))


class Renormalizes(nn.Linear):
    """Keeps its weights small, as EEGNet does."""

    def forward(self, x: Tensor) -> Tensor:
        self.weight.data = torch.renorm(self.weight.data, 2, 0, 0.1)
        with torch.no_grad():
            self.bias.clamp_(-0.01, 0.01)
        return F.linear(x, self.weight, self.bias)


def test_parameters_that_the_model_overwrites_are_put_back() -> None:
    model, x = nn.Sequential(Renormalizes(6, 6), nn.Linear(6, 6)), torch.randn(4, 6)
    before, pointer = StateOf(model), model[0].weight.data_ptr()
    critinit.measure(model, x)
    critinit.trace(model, x)
    before.assert_same()
    assert model[0].weight.data_ptr() == pointer


def test_autocast_remembers_nothing() -> None:
    model, x = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6)), torch.randn(4, 6)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        critinit.measure(model, x)
        with torch.no_grad():
            model[1].weight.mul_(2)
        found = model(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(found, model(x))


@pytest.mark.parametrize("training", [True, False])
def test_a_backward_pass_that_waits_is_not_disturbed(training: bool) -> None:
    model, x = CASES["cnn batchnorm"].build()
    model.train(training)
    out = model(x).sum()
    critinit.measure(model, x)
    out.backward()


def test_lists_and_integer_inputs_are_put_back() -> None:
    class Logs(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.log: list[int] = [1]
            self.seen = {1}
            self.tokens, self.layer = nn.Embedding(5, 6), nn.Linear(6, 6)

        def forward(self, ids: Tensor) -> Tensor:
            self.log.append(2)
            self.seen.add(2)
            return self.layer(self.tokens(ids.clamp_(0, 2)))

    model, ids = Logs(), torch.tensor([[0, 4], [3, 1]])
    critinit.measure(model, ids)
    assert model.log == [1]
    assert model.seen == {1}
    assert ids.tolist() == [[0, 4], [3, 1]]


class TestWhereTheChainStarts:
    """The main input is told from conditions and masks."""

    def test_not_at_the_time_of_a_diffusion_model(self) -> None:
        class Diffusion(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.time = nn.Sequential(nn.Linear(1, 8), nn.SiLU(), nn.Linear(8, 8))
                self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(3))
                self.shift = nn.Linear(8, 64)

            def forward(self, t: Tensor, x: Tensor) -> Tensor:
                shift = self.shift(self.time(t))
                for layer in self.layers:
                    x = torch.tanh(layer(x)) + shift
                return x

        inputs = torch.rand(4, 1), torch.randn(4, 64)
        names = critinit.trace(Diffusion(), inputs).names
        assert names == ["layers.0", "layers.1", "layers.2"]

    def test_not_at_a_float_mask(self) -> None:
        model, ids = CASES["language model"].build()

        class Masked(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.model = model

            def forward(self, mask: Tensor, ids: Tensor) -> Tensor:
                h = self.model.tokens(ids) * mask.unsqueeze(-1)
                for block in self.model.blocks:
                    h = block(h) * mask.unsqueeze(-1)
                return self.model.head(h)

        chain = critinit.trace(Masked(), (torch.ones(3, 5), ids))
        assert chain.names == ["model.blocks.0", "model.blocks.1", "model.head"]

    def test_minus_infinity_is_a_mask(self) -> None:
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        mask = nn.Transformer.generate_square_subsequent_mask(4)
        profile = critinit.measure(nn.Sequential(nn.Linear(8, 8)), torch.randn(2, 4, 8))
        assert len(profile) == 1
        model = nn.TransformerEncoder(layer, 2)
        found = critinit.measure(model, {"src": torch.randn(2, 4, 8), "mask": mask})
        assert found.names == ["layers.0", "layers.1"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda m, x: critinit.measure(x, m), "model is a Tensor"),
        (lambda m, x: critinit.measure(lambda y: y, x), "model is a function"),
        (lambda m, x: critinit.measure(nn.Sequential(nn.LazyLinear(3)), x), "lazy layer"),
        (lambda m, x: critinit.measure(m, x, generator=42), "generator is a int"),
        (lambda m, x: critinit.measure(m, x, probes=2.5), "probes=2.5"),
        (lambda m, x: critinit.measure(m, x, span=None), "span=None"),
        (lambda m, x: critinit.measure(m, [x, torch.zeros(4).long()]), "list is read as several"),
        (lambda m, x: critinit.measure(m, x.to_sparse()), "sparse"),
        (lambda m, x: critinit.trace(m, x, blocks=5), "blocks=5"),
        (lambda m, x: critinit.trace(m, x, blocks=[m[0]]), "not understood"),
        (lambda m, x: critinit.trace(m, x, blocks=nn.Linear), "not understood"),
        (lambda m, x: critinit.measure(m, x, output=lambda out: "a"), "returned a str"),
        (lambda m, x: critinit.measure(critinit.trace(m, x), x, blocks=["0"]), "were settled"),
        (lambda m, x: critinit.trace(m, x).run("nothing", x), "no block 'nothing'"),
        (lambda m, x: critinit.trace(m, x).run(0, x[:, :5]), "block 0 .0. raised"),
    ],
)
def test_more_mistakes(make, message: str) -> None:
    model = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6))
    x = torch.randn(4, 6)
    before = StateOf(model)
    with pytest.raises(critinit.CritinitError, match=message):
        make(model, x)
    before.assert_same()


def test_blocks_can_be_asked_for_by_name() -> None:
    model, x = CASES["resmlp"].build()
    chain = critinit.trace(model, x)
    assert chain["blocks.1"] is chain[2]


def test_targets_that_the_model_needs_are_kept() -> None:
    class Labelled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.table = nn.Linear(6, 6), nn.Embedding(3, 6)

        def forward(self, x: Tensor, labels: Tensor) -> Tensor:
            return self.layer(x) * self.table(labels)

    inputs = {"x": torch.randn(4, 6), "labels": torch.tensor([0, 1, 2, 0])}
    assert critinit.measure(Labelled(), inputs).names == ["layer"]
