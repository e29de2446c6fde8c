"""Multipliers beside the weights compute what folded ones do, wherever the weights are read."""

from __future__ import annotations

import copy
import io
import pickle
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import timm
import torch
import torch.nn.functional as F
from asserts import StateOf
from cases import CASES, boundaries, mlp
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.utils import parametrizations, parametrize

import critinit
from critinit import keep
from critinit.chain._inputs import first_tensor
from critinit.keep import KeepError, check_keep, fold_, keep_multipliers

kept_ways = pytest.mark.parametrize("how", ["frozen", "trainable"])


class Everything(nn.Module):
    """Reads its parameters in all the ways there are."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(11, 8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.scale = nn.Parameter(torch.tensor(0.7))
        self.listed = nn.ParameterList(torch.randn(8, 8) / 8**0.5 for _ in range(3))
        self.named = nn.ParameterDict({"a": torch.randn(8, 8) / 8**0.5})
        self.weight_normed = parametrizations.weight_norm(nn.Linear(8, 8))
        self.orthogonal = parametrizations.orthogonal(nn.Linear(8, 8))
        self.norm = nn.LayerNorm(8)
        self.batch_norm = nn.BatchNorm1d(8)

    def forward(self, ids: Tensor) -> Tensor:
        h = self.tokens(ids)
        h = h + self.scale * self.attention(h, h, h, need_weights=False)[0]
        for weight in self.listed:
            h = torch.tanh(h @ weight)
        h = h @ self.listed[-1] @ self.listed[0:2][1] @ self.named["a"]
        h = self.norm(self.orthogonal(torch.tanh(self.weight_normed(h))))
        h = self.batch_norm(h.flatten(0, 1)).unflatten(0, ids.shape)
        return F.linear(h, self.tokens.weight)


MODELS: dict[str, Callable[[], tuple[nn.Module, Any]]] = {
    **{name: case.build for name, case in CASES.items() if not case.random},
    "everything": lambda: (Everything(), torch.randint(11, (3, 5))),
    "timm vit": lambda: (timm.create_model("test_vit", img_size=64), torch.randn(2, 3, 64, 64)),
    "timm resnet": lambda: (timm.create_model("test_resnet"), torch.randn(2, 3, 64, 64)),
}


def build(name: str, how: Any = None) -> tuple[nn.Module, Any]:
    """The same model and inputs every time, with some multiplier for every parameter."""
    torch.manual_seed(7)
    model, inputs = MODELS[name]()
    if how is not None:
        keep_multipliers(model, multipliers_for(model), how)
    return model, inputs


def multipliers_for(model: nn.Module) -> dict[str, float]:
    generator = torch.Generator().manual_seed(1)
    return {
        n: 0.5 + float(torch.rand((), generator=generator)) for n, _ in model.named_parameters()
    }


def run(model: nn.Module, inputs: Any) -> Tensor:
    return first_tensor(model(**inputs) if isinstance(inputs, dict) else model(inputs))


def outputs(model: nn.Module, inputs: Any) -> list[Tensor]:
    """In training mode; and in evaluation without gradients, where attention takes a fast path."""
    model = copy.deepcopy(model)
    torch.manual_seed(0)
    trained = run(model, inputs).detach()
    with torch.no_grad():
        return [trained, run(model.eval(), inputs)]


def gradients(model: nn.Module, inputs: Any) -> dict[str, Tensor]:
    model = copy.deepcopy(model)
    run(model, inputs).float().square().sum().backward()
    return {n: torch.zeros(()) if p.grad is None else p.grad for n, p in model.named_parameters()}


def assert_near(got: Tensor, expected: Tensor, relative: float = 1e-6) -> None:
    assert got.shape == expected.shape
    off = torch.linalg.vector_norm((got - expected).double())
    assert off <= relative * torch.linalg.vector_norm(expected.double())


def assert_same_outputs(model: nn.Module, expected: nn.Module, inputs: Any) -> None:
    for a, b in zip(outputs(model, inputs), outputs(expected, inputs), strict=True):
        assert_near(a, b)


# What is computed


@pytest.mark.parametrize("name", list(MODELS))
def test_all_ways_compute_the_same(name: str) -> None:
    plain, inputs = build(name)
    folded, _ = build(name, "fold")
    names = [n for n, _ in plain.named_parameters()]
    assert not torch.equal(outputs(folded, inputs)[1], outputs(plain, inputs)[1])
    for how in ("frozen", "trainable"):
        model, _ = build(name, how)
        assert_same_outputs(model, folded, inputs)
        found = dict(model.named_parameters())
        assert [n for n in found if not n.endswith("_multiplier")] == names
        for n, p in plain.named_parameters():
            assert torch.equal(found[n], p)
        assert len(found) == len(names) * (1 if how == "frozen" else 2)


@kept_ways
@pytest.mark.parametrize("name", ["everything", "language model", "timm vit", "timm resnet"])
def test_gradients_reach_the_parameters_and_the_multipliers(name: str, how: Any) -> None:
    folded, inputs = build(name, "fold")
    model, _ = build(name, how)
    expected, found = gradients(folded, inputs), gradients(model, inputs)
    thetas = dict(model.named_parameters())
    for n, a in multipliers_for(folded).items():
        off = (found[n] - a * expected[n]).norm()
        assert off <= 1e-4 * expected[n].norm() + 1e-6, n
        if how == "trainable":
            by_hand = (expected[n] * thetas[n].detach()).sum()
            torch.testing.assert_close(found[f"{n}_multiplier"], by_hand, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", list(MODELS))
def test_measuring_and_tracing_see_what_folding_gives(name: str) -> None:
    folded, inputs = build(name, "fold")
    expected, chain_of_folded = critinit.measure(folded, inputs), critinit.trace(folded, inputs)
    h = boundaries(chain_of_folded, inputs)
    for how in ("frozen", "trainable"):
        model, _ = build(name, how)
        before = StateOf(model)
        profile, chain = critinit.measure(model, inputs), critinit.trace(model, inputs)
        before.assert_same()
        assert (profile.names, profile.model) == (expected.names, expected.model)
        torch.testing.assert_close(profile.apjn, expected.apjn)
        torch.testing.assert_close(profile.kernel, expected.kernel)
        assert chain.names == chain_of_folded.names
        for i in range(len(chain)):
            out = chain.run(i, h[i] if len(h[i]) > 1 else h[i][0])
            outs = out if isinstance(out, tuple) else (out,)
            for got, wanted in zip(outs, h[i + 1], strict=True):
                torch.testing.assert_close(got, wanted)


def test_optimizers_train_the_parameters_under_their_old_names() -> None:
    model, inputs = build("language model", "trainable")
    before = {n: p.clone() for n, p in model.named_parameters()}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(5):
        loss = F.cross_entropy(run(model, inputs).flatten(0, 1), inputs.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses == sorted(losses, reverse=True)
    trained = run(model, inputs).detach()
    assert all(not torch.equal(p, before[n]) for n, p in model.named_parameters())
    torch.testing.assert_close(run(fold_(model), inputs).detach(), trained)


def test_frozen_parameters_have_frozen_multipliers() -> None:
    model = nn.Linear(3, 2)
    model.weight.requires_grad_(False)
    keep_multipliers(model, {"weight": 2.0, "bias": 2.0}, "trainable")
    assert not model.weight_multiplier.requires_grad
    assert model.bias_multiplier.requires_grad


def test_a_model_kept_in_inference_mode_can_be_trained() -> None:
    model, x = mlp(nn.Tanh), torch.randn(4, 6)
    with torch.inference_mode():
        keep_multipliers(model, multipliers_for(model), "trainable")
    model(x).sum().backward()
    assert all(p.grad is not None for p in model.parameters())


# Back to plain PyTorch


@pytest.mark.parametrize("name", ["everything", "language model", "timm vit", "timm resnet"])
def test_fold_gives_what_folding_at_once_gives(name: str) -> None:
    plain, _ = build(name)
    folded, inputs = build(name, "fold")
    for how in ("frozen", "trainable"):
        model, _ = build(name, how)
        parameters = dict(plain.named_parameters())
        assert fold_(model) is model
        assert model.state_dict().keys() == folded.state_dict().keys()
        for key, value in folded.state_dict().items():
            assert torch.equal(model.state_dict()[key], value)
        assert [n for n, _ in model.named_parameters()] == list(parameters)
        assert "critinit" not in str([type(m).__mro__ for m in model.modules()])
        assert_same_outputs(model, folded, inputs)


def test_fold_leaves_a_plain_model_alone() -> None:
    model, _ = build("everything")
    before = StateOf(model)
    assert fold_(model) is model
    before.assert_same()


def test_fold_refuses_ties_that_no_longer_agree() -> None:
    model, _ = build("language model", "frozen")
    model.head.weight_multiplier = torch.tensor(3.0)
    before = StateOf(model)
    with pytest.raises(KeepError, match=r"weight of head \(Linear\) is tied .* multiplied by 3:"):
        fold_(model)
    before.assert_same()


# What a model has to survive


@kept_ways
@pytest.mark.parametrize("name", ["everything", "language model", "timm vit", "timm resnet"])
def test_copies_and_states(name: str, how: Any) -> None:
    model, inputs = build(name, how)
    assert_same_outputs(copy.deepcopy(model), model, inputs)
    other, _ = build(name)
    keep_multipliers(other, dict.fromkeys(multipliers_for(other), 1.0), how)
    with torch.no_grad():
        for p in other.parameters():
            p.mul_(0.5)
    other.load_state_dict(model.state_dict())
    assert_same_outputs(other, model, inputs)
    if name == "everything":
        return  # PyTorch does not pickle parametrized modules
    loaded = pickle.loads(pickle.dumps(model))
    assert_same_outputs(loaded, model, inputs)
    assert [type(m) for m in loaded.modules()] == [type(m) for m in model.modules()]
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert_same_outputs(loaded, model, inputs)
    assert_same_outputs(fold_(loaded), model, inputs)


@kept_ways
def test_a_shallow_copy_shares_what_it_holds(how: Any) -> None:
    model = nn.Linear(3, 2)
    keep_multipliers(model, {"weight": 2.0}, how)
    twin = copy.copy(model)
    assert twin.weight_multiplier is model.weight_multiplier
    assert torch.equal(twin.weight, model.weight)


def test_one_extra_key_per_owner() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ParameterList([torch.randn(3)]))
    plain = set(model.state_dict())
    keep_multipliers(model, {"0.weight": 2.0, "1.0": 3.0}, "frozen")
    assert set(model.state_dict()) == plain | {"0.weight_multiplier", "1.0_multiplier"}


@kept_ways
def test_tied_parameters_share_their_multiplier(how: Any) -> None:
    original, _ = build("language model", how)
    for model in (original, copy.deepcopy(original), pickle.loads(pickle.dumps(original))):
        assert model.head.weight_multiplier is model.tokens.weight_multiplier
        assert model.head._parameters["weight"] is model.tokens._parameters["weight"]
        assert model.head.weight_multiplier.ndim == 0
    assert original.head.weight_multiplier is not model.head.weight_multiplier


@kept_ways
@pytest.mark.parametrize("name", ["everything", "language model", "timm vit"])
def test_changes_of_dtype(name: str, how: Any) -> None:
    model, inputs = build(name, how)
    folded, _ = build(name, "fold")
    for dtype in (torch.float64, torch.bfloat16):
        if inputs.is_floating_point():
            inputs = inputs.to(dtype)
        model.to(dtype)
        assert {t.dtype for t in model.state_dict().values() if t.is_floating_point()} == {dtype}
        if dtype == torch.float64:
            assert_same_outputs(model, folded.double(), inputs)
            assert_same_outputs(fold_(copy.deepcopy(model)), folded, inputs)
        elif name != "everything":  # no orthogonal parametrization in half precision
            assert all(out.dtype == dtype for out in outputs(model, inputs))


@pytest.mark.parametrize("shape", [(), (5,)])
def test_half_precision_keeps_its_dtype_and_a_precise_multiplier(shape: tuple[int, ...]) -> None:
    model = nn.ParameterList([torch.randn(shape, dtype=torch.bfloat16)])
    folded = copy.deepcopy(model)
    keep_multipliers(model, {"0": 1.0009}, "trainable")
    keep_multipliers(folded, {"0": 1.0009}, "fold")
    assert dict(model.named_parameters())["0_multiplier"].dtype == torch.float32
    assert model[0].dtype == torch.bfloat16
    assert torch.equal(model[0], folded[0])


@pytest.mark.parametrize("name", ["language model", "bare parameters"])
def test_compiled(name: str) -> None:
    model, inputs = build(name, "trainable")
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    for _ in range(2):
        assert_near(run(compiled, inputs), run(model, inputs))
        found = torch.autograd.grad(run(compiled, inputs).square().sum(), list(model.parameters()))
        for got, (n, expected) in zip(found, gradients(model, inputs).items(), strict=True):
            torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4, msg=n)
        with torch.no_grad():
            for n, p in model.named_parameters():
                p.mul_(1.1 if n.endswith("_multiplier") else 0.9)
    assert_near(run(compiled, inputs), run(fold_(model), inputs))


def test_compiled_before_it_is_kept() -> None:
    model, inputs = build("mlp tanh")
    compiled = torch.compile(model, backend="eager")
    compiled(inputs)
    keep_multipliers(model, multipliers_for(model), "frozen")
    assert_near(compiled(inputs), model(inputs))


@kept_ways
def test_functional_calls(how: Any) -> None:
    model, x = build("mlp tanh", how)
    thetas = dict(model.named_parameters())
    expected = torch.autograd.grad(model(x).sum(), list(thetas.values()))
    per_example = vmap(
        grad(lambda p, row: functional_call(model, p, (row[None],)).sum()), in_dims=(None, 0)
    )(thetas, x)
    for got, wanted in zip(per_example.values(), expected, strict=True):
        torch.testing.assert_close(got.sum(0), wanted)


def test_data_parallel_replicas() -> None:
    """As `torch.nn.parallel.replicate` makes them, which needs several GPUs."""
    model, x = nn.Linear(3, 2), torch.randn(4, 3)
    keep_multipliers(model, {"weight": 2.0, "bias": 3.0}, "trainable")
    replica = model._replicate_for_data_parallel()
    for name, p in model.named_parameters():
        setattr(replica, name, p * 1)
    assert torch.equal(replica(x), model(x))


# Passing for the plain class


def test_it_looks_like_the_plain_class() -> None:
    for name in ("mlp tanh", "timm vit"):
        model, _ = build(name, "trainable")
        plain, _ = build(name)
        assert repr(model) == repr(plain)
        for kept, wanted in zip(model.modules(), plain.modules(), strict=True):
            assert isinstance(kept, type(wanted))
            assert type(kept).__qualname__ == type(wanted).__qualname__
            assert type(kept).__module__ == type(wanted).__module__
    assert type(model.blocks[0].norm1) is type(model.blocks[1].norm1)
    layer = type(model.head)(3, 2)
    assert torch.equal(layer.weight, layer._parameters["weight"])
    assert type(fold_(layer)) is nn.Linear


@kept_ways
def test_assigning_a_parameter(how: Any) -> None:
    model = nn.Linear(3, 2)
    keep_multipliers(model, {"weight": 2.0, "bias": 2.0}, how)
    new = nn.Parameter(torch.ones(2, 3))
    model.weight, model.bias = new, None
    assert dict(model.named_parameters())["weight"] is new
    assert torch.equal(model.weight, 2 * new)
    assert model.bias is None
    with pytest.raises(TypeError, match="cannot assign"):
        model.weight = torch.ones(2, 3)
    assert torch.equal(fold_(model).weight, torch.full((2, 3), 2.0))


@pytest.mark.parametrize(
    "change",
    [
        parametrizations.weight_norm,
        lambda layer: delattr(layer, "weight"),
        lambda layer: (layer._parameters.pop("weight"), setattr(layer, "weight", torch.ones(2, 3))),
    ],
)
def test_what_would_go_round_the_multiplier_is_refused(change: Callable[[nn.Module], Any]) -> None:
    model = nn.Linear(3, 2)
    keep_multipliers(model, {"weight": 2.0}, "frozen")
    with pytest.raises(KeepError, match=r"'weight' of a Linear .* critinit.fold_\(model\) first"):
        change(model)


def test_a_class_put_on_top_is_noticed() -> None:
    model = nn.Linear(3, 2)
    keep_multipliers(model, {"weight": 2.0}, "frozen")
    parametrize.register_parametrization(model, "bias", nn.Identity())
    before = StateOf(model)
    with pytest.raises(KeepError, match="ParametrizedLinear was given another class"):
        fold_(model)
    before.assert_same()


def test_torch_fx_cannot_multiply_twice() -> None:
    model, x = build("mlp tanh", "trainable")
    assert torch.equal(torch.fx.symbolic_trace(model)(x), model(x))
    bare, _ = build("bare parameters", "trainable")
    with pytest.raises(KeepError, match=r"'w1' of a BareParameters twice.*torch\.export"):
        torch.fx.symbolic_trace(bare)


# All or nothing


WAYS: dict[str, Callable[[nn.Module], Any]] = {
    "fold": lambda model: keep_multipliers(model, multipliers_for(model), "fold"),
    "frozen": lambda model: keep_multipliers(model, multipliers_for(model), "frozen"),
    "trainable": lambda model: keep_multipliers(model, multipliers_for(model), "trainable"),
    "fold_": fold_,
}


def interrupted(change: Callable[[], Any], lines: int) -> bool:
    """Whether Ctrl-C, pressed after so many lines of keep.py, came before the end of ``change``."""

    def trace(frame: Any, event: str, arg: object) -> Any:
        nonlocal lines
        if frame.f_code.co_filename != keep.__file__:
            return None
        if event == "line":
            lines -= 1
            if lines < 0:
                raise KeyboardInterrupt
        return trace

    outer = sys.gettrace()
    sys.settrace(trace)
    try:
        change()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(outer)
    return False


@pytest.mark.parametrize("way", list(WAYS))
def test_interrupted_at_every_line(way: str) -> None:
    model = nn.Sequential(nn.Embedding(5, 3), nn.BatchNorm1d(3), nn.Linear(3, 5))
    model[2].weight = model[0].weight
    if way == "fold_":
        keep_multipliers(model, multipliers_for(model), "frozen")
    with torch.no_grad():
        model[2].bias[:2] = torch.tensor([float("nan"), -0.0])
    changed = copy.deepcopy(model)
    WAYS[way](changed)
    before, classes = StateOf(model), [type(m) for m in model.modules()]
    lines = 0
    while interrupted(lambda: WAYS[way](model), lines):
        if [type(m) for m in model.modules()] != classes:
            break  # the change was complete
        before.assert_same()
        lines += 1
    assert lines > 30
    assert str(model.state_dict()) == str(changed.state_dict())
    assert [type(m) for m in model.modules()] == [type(m) for m in changed.modules()]


def test_a_multiplier_that_cannot_be_read() -> None:
    for way in ("fold", "frozen", "trainable"):
        model, _ = build("mlp tanh")
        before = StateOf(model)
        with pytest.raises((TypeError, ValueError)):
            keep_multipliers(model, {**multipliers_for(model), "8.bias": "much"}, way)
        before.assert_same()


# What is refused


class Named(nn.Module):
    """Has the name that the multiplier would get."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.weight_multiplier = 2


def scripted() -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is deprecated
        return torch.jit.script(nn.Linear(3, 3))


REFUSED: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "lstm": (lambda: nn.LSTM(3, 3), r"0 \(LSTM\) does not read its weights as attributes"),
    "max_norm": (lambda: nn.Embedding(3, 3, max_norm=1.0), r"0 \(Embedding\) rewrites its weight"),
    "scripted": (scripted, r"0 \(RecursiveScriptModule\) does not read its weights"),
    "attribute": (Named, r"0 \(Named\) has an attribute 'weight_multiplier' of its own"),
}


@kept_ways
@pytest.mark.parametrize("kind", list(REFUSED))
def test_modules_that_only_folding_suits(kind: str, how: Any) -> None:
    make, message = REFUSED[kind]
    model = nn.Sequential(make(), nn.Linear(3, 3))
    multipliers = multipliers_for(model)
    before = StateOf(model)
    for refuse in (
        lambda: check_keep(model, multipliers, how),
        lambda: keep_multipliers(model, multipliers, how),
    ):
        with pytest.raises(KeepError, match=f"{message}.*keep='{how}'.* keep='fold'"):
            refuse()
    before.assert_same()
    keep_multipliers(model, {"1.weight": 2.0}, how)  # the others can be
    fold_(model)
    folded = {n: p * multipliers[n] for n, p in model.named_parameters()}
    keep_multipliers(model, multipliers, "fold")
    for n, p in model.named_parameters():
        assert_near(p, folded[n])


def test_folding_reaches_a_recurrent_network() -> None:
    torch.manual_seed(0)
    model, x = nn.LSTM(3, 3), torch.randn(2, 4, 3)
    expected = functional_call(
        model, {n: a * model.get_parameter(n) for n, a in multipliers_for(model).items()}, (x,)
    )[0]
    keep_multipliers(model, multipliers_for(model), "fold")
    assert_near(model(x)[0], expected)


@pytest.mark.parametrize("how", ["fold", "frozen", "trainable"])
def test_misunderstandings(how: Any) -> None:
    model = nn.Sequential(nn.Linear(3, 3))
    with pytest.raises(KeepError, match=r"'weight'.* There are 0.weight, 0.bias"):
        keep_multipliers(model, {"weight": 2.0}, how)
    with pytest.raises(KeepError, match=r"keep='folded' is unknown. Use 'fold', 'frozen'"):
        keep_multipliers(model, {"0.weight": 2.0}, "folded")
    keep_multipliers(model, {"0.weight": 2.0}, "trainable")
    with pytest.raises(KeepError, match=r"0 \(Linear\) has multipliers already.*fold_"):
        keep_multipliers(model, {"0.bias": 2.0}, how)
    assert issubclass(KeepError, critinit.CritinitError)
