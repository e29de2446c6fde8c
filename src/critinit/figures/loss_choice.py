"""Beyond the paper: which loss to tune with, judged by J, K, logits, and a short training."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from copy import deepcopy
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import critinit
from critinit import data
from critinit._state import random_state
from critinit.figures._draws import data_words, generator_of, seed_of
from critinit.figures._figure import Figure, Point, Row, Settings
from critinit.figures._picture import sheet
from critinit.figures.errors import FigureError
from critinit.losses import Loss
from critinit.models import mlp
from critinit.plot._style import STYLES

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

_PAPER = {
    "data": "cifar10",
    "activations": ["relu", "tanh", "gelu"],
    "losses": ["untuned", "jsl", "jll", "jkl 0.01", "jkl 0.05", "jkl 0.5"],
    "depths": [10, 20, 30, 50, 100],
    "width": 500,
    "batch": 256,
    "bias_std": 0.1,
    "train_batch": 128,
    "train_steps": 2000,
    "rates": [0.0003, 0.001, 0.003, 0.01, 0.03, 0.1],
    "momentum": 0.9,
    "seed": 0,
}
_SMALL = _PAPER | {
    "depths": [10, 30],
    "width": 256,
    "train_steps": 200,
    "rates": [0.001, 0.01, 0.1],
}
_SMOKE = _PAPER | {
    "data": "digits",
    "activations": ["relu", "gelu"],
    "losses": ["untuned", "jll", "jkl 0.05"],
    "depths": [3, 6],
    "width": 64,
    "batch": 64,
    "train_batch": 64,
    "train_steps": 15,
    "rates": [0.01, 0.1],
}


def points(settings: Settings) -> list[Point]:
    """Every loss at each depth and activation."""
    return [
        {"activation": activation, "depth": depth, "loss": loss}
        for activation in settings["activations"]
        for depth in settings["depths"]
        for loss in settings["losses"]
    ]


def compute(settings: Settings, points: Sequence[Point], device: torch.device) -> Iterator[Row]:
    """Tune a network drawn as by Kaiming, measure it, and train it at each learning rate."""
    images = _Images.read(settings["data"], settings["seed"])
    x = images.train[: settings["batch"]].to(device)
    for point in points:
        model = _network(settings, point, x.shape[1]).to(device)
        loss = _loss(point["loss"])
        if loss is not None:
            probes = generator_of("probes", point, settings["seed"])
            critinit.tune_(model, x, loss, generator=probes)
        found = critinit.measure(model, x, probes=4)
        with torch.no_grad():
            spread = float(model(x).std())
        accuracies = [_trained(settings, point, model, images, rate) for rate in settings["rates"]]
        yield {
            "log_j": float(found.log_apjn[1:].abs().max()),
            "k_first": float(found.kernel[1]),
            "k_last": float(found.kernel[-2]),
            "correlation": float(found.correlation[-2]),
            "logit_std": spread,
            "accuracies": accuracies,
        }


def _network(settings: Settings, point: Point, inputs: int) -> nn.Sequential:
    """Drawn alike for every loss."""
    key = {name: point[name] for name in ("activation", "depth")}
    model = mlp(settings["width"], point["depth"], inputs=inputs, activation=point["activation"])
    draws = generator_of("weights", key, settings["seed"])
    critinit.reset_(model, "kaiming", bias_std=settings["bias_std"], generator=draws)
    return model


def _loss(name: str) -> Loss | None:
    kind, _, lam = name.partition(" ")
    if kind == "untuned":
        return None
    if kind == "jkl":
        return critinit.JKL(float(lam))
    known: dict[str, Loss] = {"jll": critinit.JLL(), "jsl": critinit.JSL()}
    if kind not in known:
        raise FigureError(f"loss {name!r} is unknown: use untuned, jll, jsl or 'jkl λ'.")
    return known[kind]


class _Images:
    """Labelled images as normalized vectors, in memory."""

    def __init__(self, train: data.Dataset, test: data.Dataset, seed: int) -> None:
        if train.labels is None or test.labels is None:
            raise FigureError(
                f"data={train.source!r} has no labels to train on: use cifar10, fashion-mnist or "
                "digits."
            )
        order = torch.randperm(len(train), generator=torch.Generator().manual_seed(seed))
        self.train = train.normalized(order).flatten(1)
        self.train_labels = train.labels[order]
        self.test = test.normalized().flatten(1)
        self.test_labels = test.labels

    @staticmethod
    @lru_cache(maxsize=1)
    def read(source: str, seed: int) -> _Images:
        return _Images(data.load(source), data.load(source, "test"), seed)


def _trained(
    settings: Settings, point: Point, model: nn.Module, images: _Images, rate: float
) -> float:
    """The test accuracy after a short training of a copy with momentum."""
    with random_state(seed_of("training", point, settings["seed"])):
        copy = deepcopy(model)
        descent = torch.optim.SGD(copy.parameters(), rate, settings["momentum"])
        for _ in range(settings["train_steps"]):
            index = torch.randint(len(images.train), (settings["train_batch"],))
            loss = F.cross_entropy(_logits(copy, images.train[index]), images.train_labels[index])
            if not math.isfinite(float(loss.detach())):
                break
            descent.zero_grad()
            loss.backward()
            descent.step()
    with torch.no_grad():
        right = _logits(copy, images.test).argmax(1) == images.test_labels
    return float(right.double().mean())


def _logits(model: nn.Module, x: Tensor) -> Tensor:
    device = next(model.parameters()).device
    logits: Tensor = model(x.to(device)).cpu()
    return logits


def draw(settings: Settings, rows: Sequence[Row]) -> Picture:
    """Accuracy, logits and J for each loss, a column for each activation."""
    names, losses = settings["activations"], settings["losses"]
    picture, axes = sheet(
        len(names),
        "Which loss to tune with: MLPs after a short training, and before it",
        [
            f"width {settings['width']}, drawn as by Kaiming with $\\sigma_b$ = "
            f"{settings['bias_std']:g}, tuned by the sweep",
            f"{settings['train_steps']} steps of SGD with momentum, $|B|$ = "
            f"{settings['train_batch']}, best of {len(settings['rates'])} learning rates",
            data_words(settings),
            "one draw a point",
        ],
        rows=3,
        sharex=True,
        sharey="row",
    )
    kinds = (
        ("test accuracy", lambda r: max(r["accuracies"]), "linear"),
        ("standard deviation of logits", lambda r: r["logit_std"], "log"),
        (r"largest $|\log J|$", lambda r: r["log_j"], "log"),
    )
    for line, (label, value, yscale) in enumerate(kinds):
        for column, name in enumerate(names):
            ax = axes[line * len(names) + column]
            ax.set_yscale(yscale)
            _lines(ax, [r for r in rows if r["activation"] == name], settings, value)
            ax.set_xticks(range(len(losses)), [_written(loss) for loss in losses], rotation=30)
            if line == 0:
                ax.set_title(name)
            if column == 0:
                ax.set_ylabel(label)
    axes[0].legend(title="depth")
    return picture


def _lines(ax: Any, rows: Sequence[Row], settings: Settings, value: Any) -> None:
    for i, depth in enumerate(settings["depths"]):
        own = {row["loss"]: value(row) for row in rows if row["depth"] == depth}
        style = STYLES[i % len(STYLES)]
        places = [k for k, loss in enumerate(settings["losses"]) if loss in own]
        ax.plot(
            places,
            [own[settings["losses"][k]] for k in places],
            color=style.colour,
            marker=style.marker,
            linewidth=1.0,
            label=str(depth),
        )
    ax.grid(axis="y", linewidth=0.4, color="0.85")


def _written(loss: str) -> str:
    kind, _, lam = loss.partition(" ")
    if kind == "untuned":
        return kind
    return f"JKL {lam}" if lam else kind.upper()


def findings(settings: Settings, rows: Sequence[Row]) -> list[str]:
    """Of each loss, the mean and the worst accuracy, and the extremes of J and the logits."""
    lines = []
    for loss in settings["losses"]:
        own = [row for row in rows if row["loss"] == loss]
        best = [max(row["accuracies"]) for row in own]
        worst = min(own, key=lambda row: max(row["accuracies"]))
        lines.append(
            f"{_written(loss)}: accuracy {sum(best) / len(best):.1%} on average, "
            f"{min(best):.1%} at worst ({worst['activation']}, depth {worst['depth']}); logits "
            f"{min(r['logit_std'] for r in own):.2g} to {max(r['logit_std'] for r in own):.2g}; "
            f"|log J| up to {max(r['log_j'] for r in own):.2g}"
        )
    return lines


def work(settings: Settings) -> float:
    """Steps of training, on average."""
    depth = sum(settings["depths"]) / len(settings["depths"])
    steps = settings["train_steps"] * len(settings["rates"]) * settings["train_batch"]
    return float(steps * depth * settings["width"] ** 2)


FIGURE = Figure(
    name="loss-choice",
    shows="which loss to tune with: J, K, logits, accuracy",
    settings={"smoke": _SMOKE, "small": _SMALL, "paper": _PAPER},
    parameters=("activation", "depth", "loss"),
    results=("log_j", "k_first", "k_last", "correlation", "logit_std", "accuracies"),
    points=points,
    compute=compute,
    draw=draw,
    findings=findings,
    work=work,
)
