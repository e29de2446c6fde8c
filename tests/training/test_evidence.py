"""The experiments: the driver can be killed, and the page says what the table says."""

from __future__ import annotations

import re
import statistics
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from cli.terminal import call

from critinit import baselines, training
from critinit.training import Outcome

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks" / "training"
PAGE = ROOT / "docs" / "training.md"


@pytest.fixture(scope="module")
def scripts() -> Any:
    """The scripts, which import each other by their bare names."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        names = [path.stem for path in FOLDER.glob("*.py")]
        for name in names:
            patch.delitem(sys.modules, name, raising=False)
        import page
        import plan
        import summary
        import table

        loaded = ModuleType("scripts")
        vars(loaded).update(page=page, plan=plan, summary=summary, table=table)
        yield loaded
        for name in names:
            patch.delitem(sys.modules, name, raising=False)


def rows_of(scripts: Any, experiment: Any, accuracy: Any) -> list[dict[str, str]]:
    """A table in which everything is done."""
    return [
        {
            "network": t.network,
            "method": t.method,
            "lr": str(t.lr),
            "steps": str(t.steps),
            "seed": str(t.seed),
            "validation": str(accuracy(t) + 0.01),
            "test": str(accuracy(t)),
        }
        for t in experiment.trials()
    ]


def test_the_page_is_what_the_table_says(scripts: Any) -> None:
    text = PAGE.read_text()
    assert scripts.page.renewed(text, scripts.table.rows()) == text, "run `make training-page`"


def test_every_row_was_planned_by_somebody(scripts: Any) -> None:
    """Numbers on the page come from these rows, so each has to be a training of the plan."""
    rows = scripts.table.rows()
    assert len(scripts.table.done()) == len(rows), "none twice"
    planned = {t for e in scripts.plan.EXPERIMENTS for t in e.trials()}
    assert scripts.table.done() <= planned


def test_the_learning_rate_is_chosen_on_held_out_images(scripts: Any) -> None:
    experiment = scripts.plan.EXPERIMENTS[0]
    low, high = experiment.rates[0], experiment.rates[-1]
    rows = rows_of(scripts, experiment, lambda t: 0.2 + 0.01 * t.seed + (t.lr == high) * 0.1)
    for row in rows:
        if float(row["lr"]) == low:
            row["validation"] = "0.9"  # though its test accuracy is lower
    cell = scripts.summary.cells(experiment, rows)[experiment.methods[0], experiment.networks[0]]
    assert cell.lr == low
    assert cell.mean == pytest.approx(statistics.fmean([0.2, 0.21, 0.22]))
    assert cell.is_complete


def test_where_autoinit_loses_is_said(scripts: Any) -> None:
    experiment = scripts.plan.EXPERIMENTS[0]
    first, second, third = experiment.networks
    high = {("autoinit", first), ("lsuv", second), ("autoinit", second), ("kaiming", third)}

    def accuracy(trial: Any) -> float:
        level = 0.3 if (trial.method, trial.network) in high else 0.2
        return level + 0.01 * trial.seed + 0.02 * (trial.method == "lsuv")

    said = scripts.page.written(experiment, rows_of(scripts, experiment, accuracy))
    assert f"on {first} it is ahead of lsuv by 8.0 ± 0.8" in said
    assert f"on {second} it is **behind** lsuv by 2.0 ± 0.8" in said
    assert f"on {third} it is **behind** kaiming by 10.0 ± 0.8" in said
    line = next(line for line in said.splitlines() if line.startswith("| autoinit "))
    assert line.endswith("| 21.0 |"), "the worst case"


def test_what_is_missing_is_said(scripts: Any) -> None:
    experiment = scripts.plan.EXPERIMENTS[0]
    rows = rows_of(scripts, experiment, lambda t: 0.3)
    whole = scripts.page.written(experiment, rows)
    assert whole.count("**30.0**") == len(experiment.networks), "the first of equals"
    assert f"{len(rows)} of {len(rows)} planned" in whole
    method, network = experiment.methods[0], experiment.networks[0]
    part = [r for r in rows if (r["method"], r["network"]) != (method, network)]
    short = scripts.page.written(experiment, part)
    line = next(line for line in short.splitlines() if line.startswith(f"| {method} "))
    assert "–" in line.split("|")[2]
    assert line.split("|")[-2].strip() == "", "no worst case without all networks"
    assert f"on {network}" not in short, "nothing is concluded from a part"
    one_less = scripts.page.written(experiment, rows[:-1])
    planned = len(experiment.rates) * len(scripts.plan.SEEDS)
    assert f"{planned - 1}/{planned} runs" in one_less


def test_the_table_survives_a_torn_line(scripts: Any, tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    row = {"network": "mlp", "method": "a, b", "lr": 0.1, "steps": 3, "seed": 0, "test": 1 / 3}
    scripts.table.append(row, path)
    with path.open("a") as file:
        file.write("mlp,other,0.1,3")  # the process was killed here
    assert len(scripts.table.rows(path)) == 1
    scripts.table.append(row | {"seed": 1}, path)
    found = scripts.table.rows(path)
    assert [(r["method"], r["seed"], r["test"]) for r in found] == [
        ("a, b", "0", "0.33333"),
        ("a, b", "1", "0.33333"),
    ]
    assert [t.seed for t in sorted(scripts.table.done(path), key=lambda t: t.seed)] == [0, 1]


COMMANDS = re.findall(
    r"^(?:critinit|.* -m critinit) (train.*?)(?:  +#.*)?$",
    "\n".join(re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL)),
    re.MULTILINE,
)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_on_the_page(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but the training itself."""
    started: list[str] = []

    def pretend(recipe: Any, *_: Any, **__: Any) -> Any:
        started.append(recipe.name)
        row = {"lr": 1.0, "weight_decay": 1.0, "test_accuracy": 1.0, "train_accuracy": 1.0}
        return Outcome([row], None) if "--grid" not in command else [row | {"best": ""}]

    monkeypatch.setattr(training, "train", pretend)
    monkeypatch.setattr(training, "train_grid", pretend)
    ended = call(*command.split())
    assert ended.status == 0, ended.err
    assert started == command.split()[1:2]


def test_the_page_shows_every_recipe() -> None:
    text = PAGE.read_text()
    for name in training.names():
        assert name.removesuffix("-cpu") in text


def test_the_page_lists_the_initializations() -> None:
    text = PAGE.read_text()
    for name in baselines.names():
        assert f"| `{name}` | {baselines.find(name).summary} |" in text
