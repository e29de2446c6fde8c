"""The draw of the weights: its distributions, what it leaves alone, and all or nothing."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import timm
import torch
import torchvision
from asserts import StateOf, assert_unbiased
from cases import CASES, BareParameters, TinyLanguageModel, mlp, parametrized, resmlp
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize

import critinit
from critinit.base import reset_

BASES = ["kaiming", "orthogonal", "default"]


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


class BareMatrices(nn.Module):
    """A weight of its own, and things that are none."""

    def __init__(self) -> None:
        super().__init__()
        self.w1 = nn.Parameter(torch.zeros(40, 30))
        self.in_proj = nn.Parameter(torch.randn(40, 30))
        self.pos_embed = nn.Parameter(0.02 * torch.randn(1, 9, 30))
        self.cls_token = nn.Parameter(torch.zeros(1, 1, 30))
        self.relative_position_bias_table = nn.Parameter(torch.zeros(9, 4))
        self.rel_pos_w = nn.Parameter(torch.randn(9, 4))
        self.b1 = nn.Parameter(torch.zeros(30))
        self.temperature = nn.Parameter(torch.tensor(0.07))
        self.A_log = nn.Parameter(torch.arange(1.0, 13.0).view(3, 4).log())
        self.count = nn.Parameter(torch.zeros(3, dtype=torch.long), requires_grad=False)


# The variance of every weight that "kaiming" draws: gain² = 2 over the terms of an output.
FAN_IN: dict[str, tuple[Callable[[], nn.Module], dict[str, float]]] = {
    "linear": (lambda: nn.Linear(30, 50), {"weight": 30}),
    "one output": (lambda: nn.Linear(900, 1), {"weight": 900}),
    "convolution": (lambda: nn.Conv2d(12, 20, (3, 2)), {"weight": 72}),
    "grouped": (lambda: nn.Conv2d(12, 20, 3, groups=4), {"weight": 27}),
    "depthwise": (lambda: nn.Conv1d(200, 200, 5, groups=200), {"weight": 5}),
    "transposed": (lambda: nn.ConvTranspose2d(12, 20, 4, stride=2), {"weight": 12 * 4}),
    "transposed grouped": (
        lambda: nn.ConvTranspose1d(12, 20, 6, stride=3, groups=2),
        {"weight": 6 * 2},
    ),
    "bilinear": (lambda: nn.Bilinear(8, 9, 20), {"weight": 72}),
    "attention": (
        lambda: nn.MultiheadAttention(24, 2),
        {"in_proj_weight": 24, "out_proj.weight": 24},
    ),
    "attention of several widths": (
        lambda: nn.MultiheadAttention(24, 2, kdim=30, vdim=40),
        {"q_proj_weight": 24, "k_proj_weight": 30, "v_proj_weight": 40, "out_proj.weight": 24},
    ),
    "recurrent": (lambda: nn.LSTM(10, 16), {"weight_ih_l0": 10, "weight_hh_l0": 16}),
    "recurrent of one input": (lambda: nn.GRUCell(1, 90), {"weight_ih": 1, "weight_hh": 90}),
    "bare": (BareMatrices, {"w1": 30, "in_proj": 30}),
    "embedding": (lambda: nn.Embedding(40, 30), {"weight": 2}),
    "bfloat16": (lambda: nn.Linear(30, 50, dtype=torch.bfloat16), {"weight": 30}),
}


@pytest.mark.parametrize("kind", list(FAN_IN))
def test_kaiming_has_variance_two_over_fan_in(kind: str) -> None:
    make, fans = FAN_IN[kind]
    model = reset_(make())
    for name, fan_in in fans.items():
        scaled = model.get_parameter(name).detach().float().flatten() * math.sqrt(fan_in / 2)
        assert_unbiased(scaled.square().unsqueeze(1), torch.ones(1))
        assert abs(float(scaled.mean())) < 5 / math.sqrt(scaled.numel())


@pytest.mark.parametrize("kind", ["convolution", "grouped", "transposed", "bare"])
def test_kaiming_doubles_the_mean_square_in_every_kind_of_layer(kind: str) -> None:
    """``E K' = 2 K``: fan_in is the number of terms, away from a border."""
    model = FAN_IN[kind][0]()
    ratios = []
    for seed in range(60):
        reset_(model, bias_std=0, generator=seeded(seed))
        torch.manual_seed(seed)
        if isinstance(model, BareMatrices):
            out = torch.randn(20, 30) @ model.w1.T
        else:
            out = model(torch.randn(2, 12, 9, 9))
        if kind == "transposed":
            out = out[..., 4:-4, 4:-4]
        ratios.append(out.detach().square().mean())
    assert_unbiased(torch.stack(ratios).unsqueeze(1), torch.tensor([2.0]))


# How many matrices a weight consists of, and their shape.
MATRICES: dict[str, tuple[Callable[[], nn.Module], str, tuple[int, int, int]]] = {
    "wide": (lambda: nn.Linear(9, 5), "weight", (1, 5, 9)),
    "tall": (lambda: nn.Linear(5, 9), "weight", (1, 9, 5)),
    "convolution": (lambda: nn.Conv2d(4, 6, 3), "weight", (1, 6, 36)),
    "grouped": (lambda: nn.Conv2d(4, 6, 3, groups=2), "weight", (2, 3, 18)),
    "depthwise": (lambda: nn.Conv2d(6, 6, 3, groups=6), "weight", (6, 1, 9)),
    "transposed": (lambda: nn.ConvTranspose2d(4, 6, 3, groups=2), "weight", (2, 2, 27)),
    "attention": (lambda: nn.MultiheadAttention(8, 2), "in_proj_weight", (3, 8, 8)),
    "one of q, k, v": (
        lambda: nn.MultiheadAttention(8, 2, kdim=5, vdim=9),
        "k_proj_weight",
        (1, 8, 5),
    ),
    "gates": (lambda: nn.LSTM(5, 8), "weight_ih_l0", (4, 8, 5)),
    "cell": (lambda: nn.GRUCell(5, 8), "weight_hh", (3, 8, 8)),
    "projected": (lambda: nn.LSTM(5, 8, proj_size=3), "weight_hr_l0", (1, 3, 8)),
    "float64": (lambda: nn.Linear(9, 5, dtype=torch.float64), "weight", (1, 5, 9)),
}


@pytest.mark.parametrize("kind", list(MATRICES))
def test_orthogonal_matrices_have_gain_one(kind: str) -> None:
    make, name, shape = MATRICES[kind]
    weight = reset_(make(), "orthogonal").get_parameter(name).detach()
    for matrix in weight.reshape(shape):
        small = matrix if shape[1] <= shape[2] else matrix.T
        torch.testing.assert_close(small @ small.T, torch.eye(len(small)).to(small))


def test_default_is_what_the_modules_do_themselves() -> None:
    model = nn.Sequential(nn.Linear(40, 30), nn.Linear(30, 20), nn.BatchNorm1d(20))
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
        model[2].running_mean.fill_(3.0)
    reset_(model, "default", bias_std=None, ones=False)
    for layer in list(model)[:2]:
        bound = 1 / math.sqrt(layer.in_features)
        for p in (layer.weight.detach(), layer.bias.detach()):
            assert 0.8 * bound < float(p.abs().max()) <= bound
        assert_unbiased(layer.weight.detach().square().reshape(-1, 1), torch.tensor([bound**2 / 3]))
    assert bool((model[2].weight == 1).all())
    assert bool((model[2].running_mean == 3).all()), "buffers stay"


def test_default_reaches_attention_and_lets_outer_modules_have_the_last_word() -> None:
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(3, 3)

        def reset_parameters(self) -> None:
            nn.init.eye_(self.inner.weight)

    model = nn.ModuleDict({"outer": Outer(), "attention": nn.MultiheadAttention(8, 2)})
    before = copy.deepcopy(model.state_dict())
    reset_(model, "default")
    assert torch.equal(model["outer"].inner.weight, torch.eye(3))
    assert not torch.equal(model["attention"].in_proj_weight, before["attention.in_proj_weight"])


def test_a_function_draws_every_weight_by_name() -> None:
    names: dict[str, torch.Size] = {}

    def draw(name: str, weight: Tensor, generator: torch.Generator) -> None:
        names[name] = weight.shape
        weight.uniform_(3, 4, generator=generator)

    model = nn.Sequential(nn.Embedding(5, 4, padding_idx=1), nn.Linear(4, 4), nn.LayerNorm(4))
    parametrizations.weight_norm(model[1])
    reset_(model, draw)
    assert names == {"0.weight": torch.Size([5, 4]), "1.weight": torch.Size([4, 4])}
    assert bool((model[1].weight.detach() > 2.9).all())
    assert bool((model[0].weight[1] == 0).all()), "the padding stays zero"
    present: list[Tensor] = []
    reset_(model, lambda name, weight, generator: present.append(weight.clone()))
    assert all(bool((w[0] >= 2.9).all()) for w in present), "it sees the present weight"


def test_biases_get_their_variance() -> None:
    model = nn.ModuleDict(
        {
            "linear": nn.Linear(3, 400),
            "conv": nn.Conv2d(3, 400, 1),
            "attention": nn.MultiheadAttention(80, 2),
            "lstm": nn.LSTM(3, 40),
        }
    )
    names = [n for n, _ in model.named_parameters() if "bias" in n]
    reset_(model, bias_std=0.3)
    for name in names:
        scaled = model.get_parameter(name).detach() / 0.3
        assert_unbiased(scaled.square().unsqueeze(1), torch.ones(1))
    drawn = {name: model.get_parameter(name).detach().clone() for name in names}
    reset_(model, bias_std=None)
    assert all(torch.equal(model.get_parameter(n), b) for n, b in drawn.items())
    reset_(model, bias_std=0)
    assert all(bool((model.get_parameter(n) == 0).all()) for n in names)


def test_without_biases_no_multiplier_makes_gelu_critical() -> None:
    """At σ_b = 0, J = σ_w² E[φ'²] is above K'/K = σ_w² E[φ²]/K at every K: not both can be 1."""
    z = torch.linspace(-12, 12, 20001, dtype=torch.float64)
    density = torch.exp(-z * z / 2)
    for k in torch.logspace(-2, 2, 9, dtype=torch.float64):
        h = (k.sqrt() * z).requires_grad_()
        phi = nn.functional.gelu(h)
        (slope,) = torch.autograd.grad(phi.sum(), h)
        ratio = (density * slope**2).sum() / (density * phi.detach() ** 2).sum() * k
        assert float(ratio) > 1.005


def test_scales_become_one_and_shifts_zero() -> None:
    torch.manual_seed(0)

    class Scaled(nn.Module):
        def __init__(self, value: float) -> None:
            super().__init__()
            self.gamma = nn.Parameter(torch.full((6,), value))
            self.layer_scale = nn.Parameter(torch.full((6, 1, 1), value))
            self.skipinit_gain = nn.Parameter(torch.tensor(value))
            self.alpha = nn.Parameter(torch.full((2, 3), value))

    class Trained(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gamma = nn.Parameter(0.01 * torch.rand(6))

    norms = [nn.LayerNorm(6), nn.GroupNorm(2, 6), nn.BatchNorm1d(6), nn.RMSNorm(6)]
    tiny = [Scaled(value) for value in (0.0, 1e-6, 0.1)]
    kept = [Scaled(0.5), Trained(), nn.PReLU(init=0.05), BareMatrices()]
    model = nn.ModuleList([*norms, *tiny, Scaled(0.1).bfloat16(), *kept])
    with torch.no_grad():
        for norm in norms:
            for p in norm.parameters():
                p.normal_()
    before = copy.deepcopy(model.state_dict())
    reset_(model, ones=False)
    drawn = ("w1", "in_proj")
    for name, p in model.named_parameters():
        assert torch.equal(p, before[name]) is not name.endswith(drawn)
    reset_(model)
    for module in list(model)[: -len(kept)]:
        for name, p in module.named_parameters():
            assert bool((p == (0 if name == "bias" else 1)).all()), name
    for index in range(len(model) - len(kept), len(model)):
        for name, p in model[index].named_parameters():
            if not name.endswith(drawn):
                assert torch.equal(p, before[f"{index}.{name}"]), name


def test_bare_parameters_are_known_by_their_names() -> None:
    model = BareParameters()
    before = copy.deepcopy(model.state_dict())
    reset_(model)
    changed = [name for name, p in model.named_parameters() if not torch.equal(p, before[name])]
    assert changed == ["w1", "w2", "w3"]


@pytest.mark.parametrize("base", BASES)
def test_a_tied_weight_is_drawn_once_as_the_layers(base: str) -> None:
    model = reset_(TinyLanguageModel(), base)
    assert model.head.weight is model.tokens.weight
    alone = {"kaiming": 2 / 8, "orthogonal": 1 / 11, "default": 1 / (3 * 8)}[base]
    square = model.head.weight.detach().square().reshape(-1, 1)
    assert_unbiased(square, torch.tensor([alone]))


def test_tied_parametrized_weights_stay_tied() -> None:
    first, second = (parametrizations.weight_norm(nn.Linear(5, 5)) for _ in range(2))
    for name in ("original0", "original1"):
        setattr(
            second.parametrizations.weight, name, first.parametrizations.weight.get_parameter(name)
        )
    seen: list[str] = []
    model = nn.Sequential(first, second)
    reset_(model, lambda name, weight, generator: seen.append(name))
    assert seen == ["0.weight"]
    assert torch.equal(first.weight, second.weight)


@pytest.mark.parametrize("base", BASES)
def test_parametrized_weights_are_drawn_as_the_layer_uses_them(base: str) -> None:
    torch.manual_seed(1)
    model = parametrized()
    with torch.no_grad():
        model[0].parametrizations.weight.original0.zero_()  # a dead layer
    before = {i: model[i].weight.detach().clone() for i in (0, 2, 4)}
    identities = [id(p) for p in model.parameters()]
    reset_(model, base)
    assert [id(p) for p in model.parameters()] == identities
    model.eval()
    normed, spectral, orthogonal = (model[i].weight.detach() for i in (0, 2, 4))
    assert all(not torch.equal(model[i].weight, b) for i, b in before.items())
    expected = {"kaiming": 2 / 6, "orthogonal": 1 / 8, "default": 1 / (3 * 6)}[base]
    assert_unbiased(normed.square().reshape(-1, 1), torch.tensor([expected]))
    largest = float(torch.linalg.matrix_norm(spectral, 2))
    assert largest == pytest.approx(1, rel=0.2), "its singular vectors follow"
    torch.testing.assert_close(orthogonal @ orthogonal.T, torch.eye(8))


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated")
def test_the_older_weight_norm_keeps_its_lengths() -> None:
    model = nn.utils.weight_norm(nn.Linear(30, 20))
    lengths, directions = model.weight_g.detach().clone(), model.weight_v.detach().clone()
    reset_(model)
    assert torch.equal(model.weight_g, lengths)
    assert not torch.equal(model.weight_v, directions)


class Symmetric(nn.Module):
    """A parametrization without an inverse."""

    def forward(self, x: Tensor) -> Tensor:
        return x.triu() + x.triu(1).T


class Wider(nn.Module):
    """One that changes the shape."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, x])


@pytest.mark.parametrize("base", BASES)
def test_parametrizations_without_an_inverse(base: str) -> None:
    model = nn.Linear(40, 40)
    parametrize.register_parametrization(model, "weight", Symmetric())
    before = model.weight.detach().clone()
    reset_(model, base)
    off_diagonal = model.weight.detach()[*torch.triu_indices(40, 40, 1)]
    assert not torch.equal(model.weight, before)
    variance = {"kaiming": 2 / 40, "orthogonal": 1 / 40, "default": 1 / (3 * 40)}[base]
    assert_unbiased(off_diagonal.square().unsqueeze(1), torch.tensor([variance]))
    cayley = parametrizations.orthogonal(
        nn.Linear(6, 6), orthogonal_map="cayley", use_trivialization=False
    )
    weight = reset_(cayley, base).weight.detach()
    torch.testing.assert_close(weight @ weight.T, torch.eye(6))
    parametrize.register_parametrization(model, "bias", Wider(), unsafe=True)
    state = StateOf(model)
    with pytest.raises(critinit.ModelError, match=r"bias .* without a right_inverse"):
        reset_(model, base)
    state.assert_same()


@contextmanager
def only_values_change(model: nn.Module) -> Iterator[StateOf]:
    """All but the values of parameters stays, also what is frozen or has a gradient."""
    parameters = list(model.parameters())
    parameters[-1].requires_grad_(False)
    for p in parameters[:-1]:
        p.grad = torch.randn_like(p)
    list(model.modules())[-1].train(not list(model.modules())[-1].training)
    state = StateOf(model)
    values = [p.detach().clone() for p in parameters]
    yield state
    with torch.no_grad():
        for p, value in zip(parameters, values, strict=True):
            p.copy_(value)
    state.assert_same()


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("name", [name for name in CASES if name != "parametrized"])
def test_all_else_stays(name: str, base: str) -> None:
    model, inputs = CASES[name].build()
    generator = seeded(5)
    with only_values_change(model) as state:
        assert reset_(model, base, generator=generator) is model
        drawn = {n: p.detach().clone() for n, p in model.named_parameters()}
        assert all(torch.isfinite(p).all() for p in drawn.values())
        for n, p in drawn.items():
            if not state.values[n][2]:
                assert torch.equal(p, state.values[n][1]), f"{n} was frozen"
            elif p.ndim > 1 and base != "default" and ("weight" in n or n in ("w1", "w2", "w3")):
                assert not torch.equal(p, state.values[n][1]), f"{n} was not drawn"
        torch.manual_seed(8)
        reset_(model, base, generator=seeded(5))
        assert all(torch.equal(p, drawn[n]) for n, p in model.named_parameters())
        torch.set_rng_state(torch.tensor(state.world["torch"], dtype=torch.uint8))
        assert torch.isfinite(critinit.measure(model, inputs).apjn).all()
    assert not torch.equal(generator.get_state(), seeded(5).get_state())


def test_the_default_generator_is_fresh_and_low_precision_only_rounds() -> None:
    one, again, low = (reset_(m) for m in (mlp(nn.ReLU), mlp(nn.ReLU), mlp(nn.ReLU).bfloat16()))
    for p, q, r in zip(one.parameters(), again.parameters(), low.parameters(), strict=True):
        assert torch.equal(p, q)
        assert torch.equal(p.bfloat16(), r)


def test_a_wrapped_model_is_reset_inside() -> None:
    inner = mlp(nn.Tanh)
    expected = reset_(copy.deepcopy(inner))
    wrapper = nn.DataParallel(inner)
    names: list[str] = []
    reset_(wrapper, lambda name, weight, generator: names.append(name))
    assert names[0] == "0.weight"
    assert reset_(wrapper) is wrapper
    for p, q in zip(inner.parameters(), expected.parameters(), strict=True):
        assert torch.equal(p, q)


FAULTY = ["cnn batchnorm", "parametrized", "resmlp", "language model"]


@pytest.mark.parametrize("name", FAULTY)
@pytest.mark.parametrize("fault", [KeyboardInterrupt(), ValueError("broken draw")])
def test_a_fault_in_any_draw_leaves_the_model_as_it_was(name: str, fault: BaseException) -> None:
    model, _ = CASES[name].build()
    count = 0

    def draw(at: int | None) -> Callable[[str, Tensor, torch.Generator], None]:
        def fill(name: str, weight: Tensor, generator: torch.Generator) -> None:
            nonlocal count
            count += 1
            weight.normal_(generator=generator)
            if count == at:
                raise fault

        return fill

    reset_(copy.deepcopy(model), draw(None))
    for at in range(1, count + 1):
        state, count = StateOf(model), 0
        with pytest.raises(type(fault)):
            reset_(model, draw(at))
        state.assert_same()


@pytest.mark.parametrize("name", FAULTY)
@pytest.mark.parametrize("base", BASES)
def test_a_fault_in_any_write_leaves_the_model_as_it_was(
    name: str, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, _ = CASES[name].build()
    genuine = critinit.base.write
    count, at = 0, 0

    def write(module: nn.Module, key: str, value: Tensor) -> None:
        nonlocal count
        count += 1
        genuine(module, key, value)
        if count == at:
            raise KeyboardInterrupt

    monkeypatch.setattr("critinit.base.write", write)
    reset_(copy.deepcopy(model), base)
    for place in range(1, count + 1):
        state, count, at = StateOf(model), 0, place
        with pytest.raises(KeyboardInterrupt):
            reset_(model, base)
        state.assert_same()


def test_a_fault_in_a_modules_own_reset() -> None:
    class Broken(nn.Linear):
        broken = False

        def reset_parameters(self) -> None:
            super().reset_parameters()
            if self.broken:
                raise ValueError("cannot")

    model = nn.Sequential(Broken(3, 3), nn.BatchNorm1d(3), nn.Linear(3, 3))
    model[0].broken = True
    state = StateOf(model)
    with pytest.raises(ValueError, match="cannot"):
        reset_(model, "default")
    state.assert_same()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"base": "xavier"}, critinit.InputError, "base='xavier' is unknown"),
        ({"base": None}, critinit.InputError, "base=None is unknown"),
        ({"bias_std": -0.1}, critinit.InputError, "bias_std=-0.1"),
        ({"bias_std": math.nan}, critinit.InputError, "bias_std=nan"),
        (
            {"base": lambda name, weight, generator: weight.fill_(math.inf)},
            critinit.NotFiniteError,
            "NaN or infinity for 0.weight",
        ),
    ],
)
def test_mistakes_are_named(
    options: dict[str, Any], error: type[critinit.CritinitError], message: str
) -> None:
    model = mlp(nn.Tanh)
    state = StateOf(model)
    with pytest.raises(error, match=message):
        reset_(model, **options)
    state.assert_same()


@pytest.mark.filterwarnings("ignore:Lazy modules")
@pytest.mark.parametrize("make", [lambda: nn.LazyLinear(3), lambda: nn.Linear(3, 3, device="meta")])
def test_parameters_without_values_are_refused(make: Callable[[], nn.Module]) -> None:
    with pytest.raises(critinit.ModelError, match=r"0\.weight has no values yet"):
        reset_(nn.Sequential(make()))


@pytest.mark.parametrize("base", BASES)
def test_what_is_frozen_keeps_its_values(base: str) -> None:
    model = parametrized().requires_grad_(False)
    model[6].requires_grad_(True)
    before = copy.deepcopy(model.state_dict())
    reset_(model, base)
    changed = [k for k, v in model.state_dict().items() if not torch.equal(v, before[k])]
    assert changed == ["6.weight", "6.bias"]


def test_embeddings() -> None:
    """Drawn as torch does, with the padding at zero; also where forward passes renormalize them."""
    model = nn.Embedding(300, 20, padding_idx=2, max_norm=1.0)
    for base in BASES:
        before = model.weight.detach().clone()
        weight = reset_(model, base, generator=seeded(BASES.index(base))).weight.detach()
        assert not torch.equal(weight, before)
        assert bool((weight[2] == 0).all())
        rows = torch.cat([weight[:2], weight[3:]])
        assert_unbiased(rows.square().reshape(-1, 1), torch.ones(1))


def no_dead_block(profile: critinit.Profile) -> bool:
    return bool((torch.isfinite(profile.apjn) & (profile.apjn > 0)).all())


def test_what_was_born_dead_is_opened() -> None:
    torch.manual_seed(0)
    model, x = resmlp(), torch.randn(3, 3, 8, 8)
    assert not bool(model.head.weight.any()), "timm starts ResMLP with a head of zeros"
    assert not no_dead_block(critinit.measure(model, x))
    assert no_dead_block(critinit.measure(reset_(model), x))


REAL: dict[str, Callable[[], nn.Module]] = {
    "vit": lambda: timm.create_model("test_vit", img_size=32),
    "resnet": lambda: timm.create_model("test_resnet"),
    "resnet18": lambda: torchvision.models.resnet18(zero_init_residual=True),
    "convnext": lambda: timm.create_model("test_convnext"),
    "nfnet": lambda: timm.create_model("test_nfnet"),
}


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("name", list(REAL))
def test_real_models(name: str, base: str) -> None:
    torch.manual_seed(0)
    model = REAL[name]()
    norms = {m for m in model.modules() if isinstance(m, nn.LayerNorm | nn.BatchNorm2d)}
    shifts = {id(m.bias) for m in norms}
    with only_values_change(model) as state:
        reset_(model, base)
        for key, p in model.named_parameters():
            as_before = torch.equal(p, state.values[key][1])
            if not p.requires_grad:
                assert as_before, key
            elif p.ndim > 1 and key.endswith("weight"):
                assert not as_before, key
            elif key.endswith(("cls_token", "pos_embed")):
                assert as_before, key
            else:
                assert bool(p.any()) is (id(p) not in shifts), key
        x = torch.randn(4, 3, 32, 32, generator=seeded(1))
        assert no_dead_block(critinit.measure(model, x))


def test_tuning_starts_from_it() -> None:
    torch.manual_seed(0)
    model, x = mlp(nn.GELU, depth=6, width=64), torch.randn(32, 6)
    result = critinit.tune_(reset_(model, "orthogonal"), x, probes=4)
    assert all(a > 0 for a in result.multipliers.values())
    assert result.after.apjn[1:].log().abs().max() < result.before.apjn[1:].log().abs().max()


def test_weights_of_unknown_names_are_refused() -> None:
    model = nn.Module()
    model.first = nn.Parameter(torch.randn(4, 4))
    with pytest.raises(critinit.ModelError, match=r"none of the parameters, such as first,"):
        reset_(model)
    reset_(nn.LayerNorm(4))  # no weight, but its parameters are known
