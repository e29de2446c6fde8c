"""Where blocks end, and that each can be run alone."""

from __future__ import annotations

import inspect
import time

import pytest
import torch
from cases import CASES, Boxed, FunctionalResidual, boundaries, mlp
from torch import Tensor, nn

import critinit
from critinit._state import untouched
from critinit.chain._inputs import first_tensor, read_batches
from critinit.chain._trace import find_chain


@pytest.mark.parametrize("name", list(CASES))
def test_blocks_are_found(name: str) -> None:
    model, inputs = CASES[name].build()
    assert critinit.trace(model, inputs).names == CASES[name].names


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.random])
def test_every_block_runs_alone(name: str) -> None:
    """``run(i, h^i)`` is ``h^{i+1}`` of the whole network, again and again, bit for bit."""
    model, inputs = CASES[name].build()
    chain = critinit.trace(model, inputs)
    h = boundaries(chain, inputs)
    assert len(h) == len(chain) + 1
    state = {key: value.clone() for key, value in model.state_dict().items()}
    for _ in range(2):
        for i in reversed(range(len(chain))):
            out = chain.run(i, h[i] if len(h[i]) > 1 else h[i][0])
            for got, expected in zip(
                out if isinstance(out, tuple) else (out,), h[i + 1], strict=True
            ):
                if name == "parametrized":  # spectral norm moves with every run
                    torch.testing.assert_close(got, expected, rtol=0.1, atol=0.05)
                else:
                    torch.testing.assert_close(got, expected, rtol=0, atol=0)
    model.load_state_dict(state)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.random])
def test_a_sketch_on_few_examples_finds_what_a_true_run_on_all_finds(name: str) -> None:
    model, inputs = CASES[name].build()
    batch = next(read_batches(model, inputs))
    with untouched(model, seed=0):
        sketched, true = (
            find_chain(model, batch, None, first_tensor, whole_batch)
            for whole_batch in (False, True)
        )
    assert sketched.names == true.names
    for a, b in zip(sketched, true, strict=True):
        assert list(a.parameters) == list(b.parameters)


class Routed(nn.Module):
    """Goes on by what its first layer says, as often as another does."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.narrow, self.last = (nn.Linear(8, 8, bias=False) for _ in range(3))
        self.wide = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))

    def forward(self, x: Tensor) -> Tensor:
        h: Tensor = self.first(x)
        h = self.wide(h) if h.abs().sum() > 0 else self.narrow(h)
        while h.norm() < 100:  # for ever, if products were zero
            h = 2 * self.last(h) + h
        return h


def test_a_model_whose_calls_depend_on_values() -> None:
    torch.manual_seed(0)
    names = critinit.trace(Routed(), torch.randn(4, 8)).names
    assert names[:3] == ["first", "wide.0", "wide.2"]
    assert len(names) > 3


def test_a_block_follows_its_input_and_its_parameters() -> None:
    model, inputs = CASES["mlp tanh"].build()
    chain = critinit.trace(model, inputs)
    h = torch.randn(6, 8)
    expected = model[4](torch.tanh(h))
    torch.testing.assert_close(chain.run(2, h), expected)
    with torch.no_grad():
        model[4].weight.mul_(2)
    torch.testing.assert_close(chain.run(2, h), model[4](torch.tanh(h)))
    h.requires_grad_()
    (gradient,) = torch.autograd.grad(chain.run(2, h).sum(), h)
    (wanted,) = torch.autograd.grad(model[4](torch.tanh(h)).sum(), h)
    torch.testing.assert_close(gradient, wanted)


def test_running_one_block_costs_one_block() -> None:
    """Only the block's own modules are called."""
    model, inputs = CASES["resmlp"].build()
    chain = critinit.trace(model, inputs)
    h = boundaries(chain, inputs)
    called: list[str] = []
    for name, module in model.named_modules():
        module.register_forward_hook(lambda *_, name=name: called.append(name))
    chain.run(2, h[2][0])
    assert called
    assert all(name.startswith("blocks.1") for name in called)


def test_a_key_value_cache_is_not_run_over_twice() -> None:
    """An object that the model fills while it runs is as it was when a block runs again."""

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, h: Tensor, cache: Cache) -> Tensor:
            cache.seen.append(h)
            return h + self.linear(torch.stack(cache.seen).sum(0) / len(cache.seen))

    class Cache:
        def __init__(self) -> None:
            self.seen: list[Tensor] = []

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(4, 4)
            self.layers = nn.ModuleList(Layer() for _ in range(3))

        def forward(self, x: Tensor) -> Tensor:
            h = self.first(x)
            for layer in self.layers:
                h = layer(h, Cache())
            return h

    model, x = Model(), torch.randn(3, 4)
    chain = critinit.trace(model, x)
    assert chain.names == ["first", "layers.0", "layers.1", "layers.2"]
    h = boundaries(chain, x)
    for _ in range(3):
        torch.testing.assert_close(chain.run(2, h[2][0]), h[3][0])


def test_an_earlier_tensor_that_is_handed_on_unused_does_no_harm() -> None:
    """As timm's CoaT does; it is held fixed, and its graph is not kept alive."""

    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, h: Tensor, earlier: Tensor) -> tuple[Tensor, Tensor]:
            return h + self.linear(h.relu()), earlier

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.last = nn.Linear(4, 4), nn.Linear(4, 4), Last()

        def forward(self, x: Tensor) -> Tensor:
            first = self.first(x)
            h, _ = self.last(self.second(first.relu()), first)
            return h

    model, x = Model(), torch.randn(3, 4)
    chain = critinit.trace(model, x)
    assert chain.names == ["first", "second", "last"]
    h = boundaries(chain, x)
    torch.testing.assert_close(chain.run(2, h[2][0]), model(x))
    constants = [leaf for tape in chain._tapes for entry in tape.entries for leaf in entry.leaves]
    assert not any(isinstance(t, Tensor) and t.grad_fn is not None for t in constants)
    critinit.tune_(model, x)


@pytest.mark.parametrize("shape", [(6,), (6, 6), (8, 6, 6)])
def test_a_norm_with_a_weight_for_every_pixel_is_a_norm(shape: tuple[int, ...]) -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.LayerNorm(shape),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(288, 4),
    )
    assert critinit.trace(model, torch.randn(2, 3, 6, 6)).names == ["0", "4"]


def test_parameters_of_a_block() -> None:
    model, inputs = CASES["language model"].build()
    chain = critinit.trace(model, inputs)
    names = dict(model.named_parameters())
    assert chain[2].parameters.keys() == {"tokens.weight"}  # tied with the head
    assert all(chain[1].parameters[k] is names[k] for k in chain[1].parameters)
    assert {k.split(".")[1] for k in chain[1].parameters} == {"1"}
    model, inputs = CASES["parametrized"].build()
    assert list(critinit.trace(model, inputs)[0].parameters) == [
        "0.bias",
        "0.parametrizations.weight.original0",
        "0.parametrizations.weight.original1",
    ]
    model, inputs = CASES["gated"].build()
    assert all("table" in block.parameters for block in critinit.trace(model, inputs))


def test_paper_partition_of_vgg() -> None:
    """Conv–BatchNorm–ReLU composites and max-pools, then the classifier."""
    from torchvision.models import vgg11_bn

    chain = critinit.trace(vgg11_bn(num_classes=10), torch.randn(2, 3, 32, 32))
    pools = [3, 7, 14, 21, 28]
    convolutions = [0, 4, 8, 11, 15, 18, 22, 25]
    features = [f"features.{i}" for i in sorted(convolutions + pools)]
    assert chain.names == [*features, "classifier.0", "classifier.3", "classifier.6"]
    assert list(chain[0].parameters) == [
        "features.0.weight",
        "features.0.bias",
        "features.1.weight",
        "features.1.bias",
    ]


def test_residual_networks_keep_their_blocks() -> None:
    from torchvision.models import resnet18

    chain = critinit.trace(resnet18(), torch.randn(2, 3, 64, 64))
    layers = [f"layer{i}.{j}" for i in (1, 2, 3, 4) for j in (0, 1)]
    assert chain.names == ["conv1", "maxpool", *layers, "fc"]


def test_a_module_with_many_skips_is_opened() -> None:
    small = nn.Sequential(FunctionalResidual(3), nn.Linear(3, 3))
    large = nn.Sequential(FunctionalResidual(6), nn.Linear(3, 3))
    x = torch.randn(4, 6)
    assert critinit.trace(small, x).names == ["0", "1"]
    assert len(critinit.trace(large, x)) == 9


def test_a_wrapper_is_looked_through() -> None:
    wrapped = Boxed(Boxed(FunctionalResidual(2), lambda y: y), lambda y: y)
    assert critinit.trace(wrapped, torch.randn(4, 6)).names == [
        "body.body.first",
        "body.body.layers.0",
        "body.body.layers.1",
        "body.body.head",
    ]


def test_compiled_models_are_measured_uncompiled() -> None:
    model = mlp(nn.Tanh)
    x = torch.randn(4, 6)
    expected = critinit.measure(model, x).apjn
    torch.testing.assert_close(critinit.measure(torch.compile(model), x).apjn, expected)
    model.compile()
    torch.testing.assert_close(critinit.measure(model, x).apjn, expected)
    assert model._compiled_call_impl is not None


class TestChoice:
    """``blocks=``"""

    def test_container(self) -> None:
        model, x = CASES["cnn batchnorm"].build()
        wrapped = nn.Sequential()
        wrapped.add_module("features", model)
        chain = critinit.trace(wrapped, x, blocks="features")
        assert len(chain) == len(model)

    def test_names(self) -> None:
        model, x = CASES["mlp tanh"].build()
        chain = critinit.trace(model, x, blocks=["1", "5"])
        assert len(chain) == 3
        h = boundaries(chain, x)
        torch.testing.assert_close(h[1][0], model[:2](x))
        torch.testing.assert_close(h[2][0], model[:6](x))

    def test_inside_a_block_kept_whole(self) -> None:
        model, x = CASES["resmlp"].build()
        chain = critinit.trace(model, x, blocks=["blocks.0", "blocks.2"])
        assert len(chain) == 3

    def test_predicate(self) -> None:
        model, x = CASES["vit"].build()
        chain = critinit.trace(model, x, blocks=lambda name, _: name.startswith("blocks."))
        assert len(chain) == 3  # modules off the path (attention, mlp) are passed over

    def test_unknown_name_suggests_a_near_one(self) -> None:
        model, x = CASES["resmlp"].build()
        with pytest.raises(critinit.BlockError, match=r"no module 'block\.1'.*'blocks\.1'"):
            critinit.trace(model, x, blocks=["block.1"])

    def test_detour_is_named(self) -> None:
        model, x = CASES["resmlp"].build()
        with pytest.raises(critinit.BlockError, match="not on every path") as caught:
            critinit.trace(model, x, blocks=["blocks.1.linear_tokens"])
        assert "stem.proj" in str(caught.value)
        assert "blocks.1" in str(caught.value)

    @pytest.mark.parametrize(
        ("blocks", "message"),
        [
            ("0", "no children"),
            (["6", "unused"], "never called"),
            (lambda name, module: False, "accepts no module"),
        ],
    )
    def test_other_mistakes(self, blocks, message: str) -> None:
        model, x = CASES["mlp tanh"].build()
        model.add_module("unused", nn.Linear(2, 2))
        model.forward = lambda h: nn.Sequential.forward(model[:-1], h)
        with pytest.raises(critinit.BlockError, match=message):
            critinit.trace(model, x, blocks=blocks)


def test_run_refuses_what_it_cannot_do() -> None:
    model, x = CASES["mlp tanh"].build()
    chain = critinit.trace(model, x)
    with pytest.raises(critinit.BlockError, match="5 blocks"):
        chain.run(5, x)
    scripted = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    with pytest.warns(FutureWarning, match="deprecated"):
        scripted = torch.jit.script(scripted)
    chain = critinit.trace(scripted, torch.randn(3, 4))
    with pytest.raises(critinit.ModelError, match="cannot be seen from Python"):
        chain.run(0, torch.randn(3, 4))


def test_a_network_that_changes_from_run_to_run_is_refused() -> None:
    class LayerDrop(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(50))

        def forward(self, h: Tensor) -> Tensor:
            for layer in self.layers:
                if torch.rand(()) < 0.5:
                    h = layer(h)
            return h

    with pytest.raises(critinit.ModelError, match="other layers each time"):
        critinit.measure(LayerDrop(), torch.randn(3, 4))


def test_control_flow_that_depends_on_the_batch_is_followed() -> None:
    """The chain is first looked for with one example; a longer run is noticed."""

    class Unrolled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.Linear(4, 4)

        def forward(self, h: Tensor) -> Tensor:
            for _ in range(h.shape[0]):
                h = torch.tanh(self.cell(h))
            return h

    profile = critinit.measure(Unrolled(), torch.randn(5, 4))
    assert len(profile) == 5


def test_the_documented_rule_is_that_of_the_code() -> None:
    """``docs/blocks.md`` states the number that the code uses."""
    from pathlib import Path

    from critinit.chain import _partition

    page = Path(__file__).parents[1] / "docs" / "blocks.md"
    words = {4: "four"}
    assert f"more than {words[_partition._LONGEST_BLOCK]}" in page.read_text()
    assert f"more than {words[_partition._LONGEST_BLOCK]}" in inspect.getdoc(_partition)


def test_tracing_is_linear_in_depth() -> None:
    def seconds(depth: int) -> float:
        model, x = mlp(nn.Tanh, depth), torch.randn(4, 6)
        times = []
        for _ in range(5):  # the least, since what else the process does only adds to it
            start = time.process_time()
            critinit.measure(model, x)
            times.append(time.process_time() - start)
        return min(times)

    assert seconds(400) < 20 * seconds(50)
