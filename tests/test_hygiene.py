"""The model and the world are bit-identical afterwards, whatever happens in between."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from asserts import StateOf
from cases import CASES, mlp
from torch import Tensor, nn

import critinit
from critinit.apjn import VJP


@contextmanager
def state_kept(model: nn.Module) -> Iterator[None]:
    """With frozen parameters, gradients and hooks that must survive too."""
    parameters = list(model.parameters())
    parameters[0].requires_grad_(False)
    for p in parameters[1:]:
        p.grad = torch.randn_like(p)
    next(m for m in model.modules()).register_forward_hook(lambda *_: None)
    list(model.modules())[-1].train(not list(model.modules())[-1].training)
    before = StateOf(model)
    yield
    before.assert_same()


def linears(count: int) -> list[nn.Module]:
    return [nn.Linear(4, 4) for _ in range(count)]


@pytest.mark.parametrize("name", list(CASES))
@pytest.mark.parametrize("method", ["vjp", "jvp", "exact", "trace"])
def test_success_leaves_no_trace(name: str, method: str) -> None:
    model, inputs = CASES[name].build()
    with state_kept(model):
        if method == "trace":
            critinit.trace(model, inputs)
        else:
            critinit.measure(model, inputs, method=method, probes=2)


class FaultyVJP(VJP):
    """Raises when it comes to one block."""

    fault: BaseException
    at: int

    def contributions(self, h: Any, out: Any, batch_size: int) -> Tensor:
        object.__setattr__(self, "count", getattr(self, "count", -1) + 1)
        if self.count == self.at:
            raise self.fault
        return super().contributions(h, out, batch_size)


@pytest.mark.parametrize("name", list(CASES))
@pytest.mark.parametrize("fault", [KeyboardInterrupt(), critinit.NotFiniteError("here")])
def test_a_fault_in_the_measurement_of_every_block(
    name: str, fault: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in range(len(CASES[name].names)):
        model, inputs = CASES[name].build()
        faulty: Callable[..., FaultyVJP] = type("At", (FaultyVJP,), {"at": at, "fault": fault})
        monkeypatch.setattr("critinit.measurement.VJP", faulty)
        with state_kept(model), pytest.raises(type(fault)) as caught:
            critinit.measure(model, inputs)
        if isinstance(caught.value, critinit.CritinitError) and at > 0:
            assert caught.value.profile.names == CASES[name].names[:at]


LEAVES = ["mlp tanh", "cnn batchnorm", "pre-bn mu=1", "resmlp", "vit", "language model", "dropout"]


@pytest.mark.parametrize("name", LEAVES)
def test_a_fault_in_every_module(name: str) -> None:
    """A model that raises in some layer: the blocks before it are in the error's profile."""
    reference, inputs = CASES[name].build()
    whole = critinit.measure(reference, inputs)
    called: set[str] = set()
    probe, inputs = CASES[name].build()
    for place, module in probe.named_modules():
        if not list(module.children()):
            module.register_forward_hook(lambda *_, place=place: called.add(place))
    critinit.measure(probe, inputs)
    reached = []
    for place in sorted(called):
        model, inputs = CASES[name].build()

        def fail(*_: Any) -> None:
            raise ValueError("broken layer")

        model.get_submodule(place).register_forward_pre_hook(fail)
        with state_kept(model), pytest.raises(critinit.ModelError, match="broken layer") as caught:
            critinit.measure(model, inputs)
        assert isinstance(caught.value.__cause__, ValueError)
        measured = caught.value.profile
        if measured is None:
            reached.append(0)
            continue
        reached.append(len(measured))
        assert measured.names == whole.names[: len(measured)]
        torch.testing.assert_close(measured.apjn, whole.apjn[: len(measured)])
        torch.testing.assert_close(measured.kernel, whole.kernel[: len(measured) + 1])
    assert set(reached) == set(range(len(whole)))


def test_a_fault_that_only_the_full_batch_meets() -> None:
    class Picky(nn.Module):
        def forward(self, h: Tensor) -> Tensor:
            if h.shape[0] > 3:
                raise MemoryError("too large")
            return h

    model, x = nn.Sequential(*linears(2), Picky(), *linears(1)), torch.randn(8, 4)
    with state_kept(model), pytest.raises(critinit.ModelError, match="too large") as caught:
        critinit.measure(model, x)
    assert caught.value.profile.names == ["0", "1"]


def test_nan_names_the_first_block_that_made_it() -> None:
    model, inputs = CASES["mlp tanh"].build()
    with torch.no_grad():
        model[4].weight[0, 0] = float("nan")
    with (
        state_kept(model),
        pytest.raises(critinit.NotFiniteError, match=r"block 2 \(4\)") as caught,
    ):
        critinit.measure(model, inputs)
    assert caught.value.profile.names == ["0", "2"]
    assert "critical" in str(caught.value.profile)


def test_a_derivative_that_is_not_finite() -> None:
    class Root(nn.Module):
        def forward(self, h: Tensor) -> Tensor:
            return (h * 0).sqrt()

    model = nn.Sequential(*linears(2), Root(), *linears(1))
    with pytest.raises(critinit.NotFiniteError, match="derivative") as caught:
        critinit.measure(model, torch.randn(8, 4))
    assert caught.value.profile.names == ["0", "1"]
    assert len(caught.value.profile.kernel) == 3


def test_callers_settings_do_not_matter_and_stay() -> None:
    model, inputs = CASES["cnn batchnorm"].build()
    expected = critinit.measure(model, inputs).apjn
    with torch.no_grad(), state_kept(model):
        torch.testing.assert_close(critinit.measure(model, inputs).apjn, expected)
        assert not torch.is_grad_enabled()
    with torch.inference_mode():
        made_inside = inputs.clone()
        torch.testing.assert_close(critinit.measure(model, made_inside).apjn, expected)
        assert torch.is_inference_mode_enabled()
    with torch.autocast("cpu", dtype=torch.bfloat16), state_kept(model):
        torch.testing.assert_close(
            critinit.measure(model, inputs).apjn, expected, rtol=0.05, atol=0.01
        )
        assert torch.is_autocast_enabled("cpu")
    torch.use_deterministic_algorithms(True)
    try:
        with state_kept(model):
            torch.testing.assert_close(critinit.measure(model, inputs).apjn, expected)
    finally:
        torch.use_deterministic_algorithms(False)


def test_only_the_generator_moves() -> None:
    model, inputs = CASES["dropout"].build()
    generator = torch.Generator().manual_seed(3)
    before = generator.get_state()
    first = critinit.measure(model, inputs, generator=generator)
    assert not torch.equal(generator.get_state(), before)
    second = critinit.measure(model, inputs, generator=generator)
    assert not torch.equal(first.apjn, second.apjn)
    generator.set_state(before)
    random.seed(5)
    np.random.seed(5)
    torch.manual_seed(5)
    again = critinit.measure(model, inputs, generator=generator)
    assert torch.equal(first.apjn, again.apjn)
    assert torch.equal(first.kernel, again.kernel)
    assert torch.equal(critinit.measure(model, inputs).apjn, critinit.measure(model, inputs).apjn)


def test_what_a_forward_pass_leaves_in_a_module_is_taken_back() -> None:
    class Remembers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))
            self.history: dict[str, Tensor] = {}
            self.last: Tensor | None = None

        def forward(self, h: Tensor) -> Tensor:
            self.calls += 1
            self.calls = self.calls + 1
            self.last = h
            self.history["h"] = h
            self.extra = h
            return h

    model, x = nn.Sequential(*linears(1), Remembers(), *linears(1)), torch.randn(8, 4)
    with state_kept(model):
        critinit.measure(model, x)


def test_embeddings_with_max_norm_are_not_renormalized() -> None:
    model = nn.Sequential(nn.Embedding(5, 4, max_norm=0.1), nn.Linear(4, 4))
    with state_kept(model):
        critinit.measure(model, torch.tensor([[0, 1], [2, 3]]))


def test_inputs_are_not_touched() -> None:
    model, inputs = CASES["cnn in-place"].build()
    inputs.requires_grad_()
    before, version = inputs.detach().clone(), inputs._version
    critinit.measure(model, inputs)
    assert torch.equal(inputs.detach(), before)
    assert inputs._version == version
    assert inputs.grad is None


def test_a_deep_copy_measures_the_same() -> None:
    model, inputs = CASES["vit"].build()
    chain = critinit.trace(model, inputs)
    assert torch.equal(
        critinit.measure(chain, inputs).apjn, critinit.measure(copy.deepcopy(model), inputs).apjn
    )


def test_measuring_one_model_does_not_disturb_another_thread() -> None:
    import threading

    other, x = mlp(nn.Tanh), torch.randn(4, 6)
    expected = other(x)
    stop, wrong = threading.Event(), []

    def keep_calling() -> None:
        while not stop.is_set():
            if not torch.equal(other(x), expected):
                wrong.append(1)

    thread = threading.Thread(target=keep_calling)
    thread.start()
    try:
        model, inputs = CASES["vit"].build()
        for _ in range(5):
            critinit.measure(model, inputs)
    finally:
        stop.set()
        thread.join()
    assert not wrong
