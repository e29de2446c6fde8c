"""What the benchmarks are made of: it can fail, and the page says what the results say."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"
forks = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")


def test_the_page_is_what_the_results_say(scripts: Any) -> None:
    results = scripts.results.load()
    assert scripts.readable.page(results) == PAGE.read_text(), "run benchmarks/bench.py --page"


def test_every_result_is_of_a_point_that_is_planned(scripts: Any) -> None:
    assert scripts.results.load()["points"].keys() <= scripts.bench.points().keys()


def test_the_exponent_of_a_power(scripts: Any) -> None:
    xs = [8, 16, 32, 64]
    assert scripts.scaling.exponent(xs, [3 * x**1.5 for x in xs]) == pytest.approx(1.5)
    assert scripts.scaling.exponent(xs, [7.0] * 4) == pytest.approx(0)


class TestTheGuard:
    COMMITTED = {"guard | MLP": {"measure": 1.0, "sweep": 4.0}}  # noqa: RUF012

    def test_what_costs_more_is_named(self, scripts: Any) -> None:
        found = {"guard | MLP": {"measure": 1.6, "sweep": 5.9}}
        assert scripts.guard.grown(found, self.COMMITTED) == [
            "guard | MLP: measure costs 1.60, was 1.00"
        ]

    def test_what_cannot_be_judged_is_named(self, scripts: Any) -> None:
        found = {"guard | MLP": {"trace": 1.0}, "guard | ViT": {"failed": "no result"}}
        assert len(scripts.guard.grown(found, self.COMMITTED)) == 2

    @pytest.mark.parametrize(("factor", "status"), [(1.4, 0), (1.6, 1)])
    def test_it_exits_with_one(
        self,
        scripts: Any,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        factor: float,
        status: int,
    ) -> None:
        """With a clock that finds everything dearer by a factor."""
        committed = scripts.results.load()["points"]
        names = iter(scripts.guard.points())

        def dearer(run: Any, limit: float) -> dict[str, float]:
            point = committed[next(names)]
            return {what: factor * cost for what, cost in point.items() if what != "seconds"}

        monkeypatch.setattr(scripts.guard, "isolated", dearer)
        with pytest.raises(SystemExit) as ended:
            scripts.guard.main()
        assert ended.value.code == status
        assert ("measure costs" in capsys.readouterr().out) == bool(status)


@forks
class TestIsolated:
    def test_a_result_and_an_error(self, scripts: Any) -> None:
        assert scripts.isolated.isolated(lambda: {"a": 1}, 20) == {"a": 1}
        assert scripts.isolated.isolated(lambda: 1 / 0, 20)["failed"].startswith(
            "ZeroDivisionError"
        )

    def test_its_clock_is_fine(self, scripts: Any) -> None:
        def times() -> dict[str, Any]:
            end = time.perf_counter() + 0.1
            seen = set()
            while time.perf_counter() < end:
                seen.add(time.process_time())
            return {"count": len(seen)}

        assert scripts.isolated.isolated(times, 20)["count"] > 200

    def test_a_crash_and_no_end(self, scripts: Any) -> None:
        crash = lambda: os.kill(os.getpid(), signal.SIGKILL)  # noqa: E731
        assert "status -9" in scripts.isolated.isolated(crash, 20)["failed"]
        failed = scripts.isolated.isolated(lambda: time.sleep(60), 0.05)["failed"]
        assert failed == "no result within 0 s of waiting"

        def busy() -> None:
            while True:
                pass

        assert scripts.isolated.isolated(busy, 1)["failed"] == "no result within 1 s"

    @pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")
    def test_the_peak_is_what_was_held(self, scripts: Any) -> None:
        def hold() -> None:
            kept = [torch.ones(2**20) for _ in range(8)]
            del kept
            torch.ones(2**20)

        run = lambda: {"mib": scripts.memory.peak(hold, lambda: torch.ones(1))}  # noqa: E731
        assert scripts.isolated.isolated(run, 20)["mib"] == pytest.approx(32, rel=0.05)


def test_a_killed_run_loses_no_point(
    scripts: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "results.json"
    monkeypatch.setattr(scripts.results, "RESULTS", path)
    scripts.results.keep("b", {"cost": 1 / 3, "k": float("inf")}, ["a", "b"])
    scripts.results.keep("a", {"cost": [2.0]}, ["a", "b"])
    found = json.loads(path.read_text())["points"]
    assert list(found.items()) == [("a", {"cost": [2.0]}), ("b", {"cost": 0.3333, "k": "inf"})]


def test_what_was_changed_is_seen(scripts: Any) -> None:
    def make() -> nn.Sequential:
        model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4))
        model[2].weight = model[0].weight
        model[2].bias.requires_grad_(False)
        return model

    changes = {
        "mode": lambda m: m[1].eval(),
        "buffers": lambda m: m(torch.randn(3, 4)),
        "tied weights": lambda m: setattr(m[2], "weight", nn.Parameter(m[2].weight.clone())),
        "parametrizations": lambda m: nn.utils.parametrizations.orthogonal(m[0]),
        "hooks": lambda m: m[0].register_forward_hook(lambda *_: None),
        "frozen weights": lambda m: m[2].bias.data.add_(1),
        "parameters' names or kinds": lambda m: m[2].bias.requires_grad_(True),
    }
    for what, change in changes.items():
        model = make()
        kept = scripts.kept.Kept.of(model)
        assert kept.changed(model) == []
        change(model)
        assert what in kept.changed(model)


@pytest.mark.parametrize(
    ("network", "method", "outcome", "why"),
    [
        ("tied weights", "sweep, J", "works", ""),
        ("tied weights", "gradinit package", "wrong", "changes tied weights"),
        ("weight_norm", "lsuv package", "wrong", "changes no weight"),
        ("in-place ReLU", "MetaInit algorithm", "fails", "3rd+ order"),
        ("spectral_norm", "sweep, J", "says so", "changes no weight"),
    ],
)
def test_awkward_networks(scripts: Any, network: str, method: str, outcome: str, why: str) -> None:
    state = torch.get_rng_state()
    found = scripts.edges.tried(network, scripts.peers.METHODS[method])
    torch.set_rng_state(state)
    assert found["outcome"] == outcome
    assert why in found["why"]
