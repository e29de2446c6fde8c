"""What is written: the JSON document, the page, and weights that plain PyTorch loads."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jsonschema
import pytest
import torch
from cli import networks
from cli.terminal import call
from report.browser import HOW_TO_INSTALL, PROGRAM, Browser
from safetensors import safe_open
from safetensors.torch import load, load_file

import critinit
from critinit.models import mlp
from critinit.report import schema

OWN = networks.__file__
TINY = ("--set", "depth=4", "--set", "width=64", "--batch", "16")

DOCUMENTS = {
    "profile": ("measure", "mlp", *TINY),
    "result": ("tune", "mlp", *TINY),
    "scan": ("scan", "mlp", *TINY, "--sizes", "4,16"),
    "comparison": ("compare", "mlp", *TINY, "--init", "default,fixup"),
}


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_json_follows_its_schema(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    command = [*DOCUMENTS[kind], "--seed", "5", "--json", str(file)]
    ended = call(*command)
    assert (ended.status, ended.err) == (0, f"wrote {file}\n")
    found = json.loads(file.read_text())
    jsonschema.validate(found, schema())
    assert found["schema"] == f"critinit/{kind}/1"
    assert found["run"]["command"] == " ".join(["critinit", *command])
    assert (found["run"]["seed"], found["run"]["data"]) == (5, "gaussian")


def test_a_baseline_that_does_not_apply_is_told_of(tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    ended = call(*DOCUMENTS["comparison"], "--json", str(file))
    assert "fixup did not work: " in ended.out
    assert list(json.loads(file.read_text())["comparison"]["failed"]) == ["fixup"]


def test_the_command_in_the_document_repeats_it(tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    call("tune", "mlp", *TINY, "--json", str(file))
    first = json.loads(file.read_text())
    call(*first["run"]["command"].split()[1:])
    assert json.loads(file.read_text())["result"] == first["result"]


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_weights_load_in_plain_pytorch(dtype: str, tmp_path: Path) -> None:
    out, document = tmp_path / "weights.safetensors", tmp_path / "found.json"
    files = ("--out", str(out), "--json", str(document))
    ended = call("tune", "mlp", *TINY, "--seed", "1", "--dtype", dtype, "--probes", "4", *files)
    assert ended.status == 0
    torch.manual_seed(1)
    model = mlp(width=64, depth=4).to(getattr(torch, dtype))
    before = {name: p.clone() for name, p in model.named_parameters()}
    model.load_state_dict(load_file(out))
    with safe_open(out, "pt") as file:
        header = {
            key: json.loads(value) for key, value in file.metadata().items() if key != "format"
        }
    result = json.loads(document.read_text())
    assert header["multipliers"] == result["result"]["multipliers"]
    assert (header["seed"], header["loss"]) == (1, result["run"]["loss"])
    assert header["versions"]["torch"] == torch.__version__.partition("+")[0]
    for name, parameter in model.named_parameters():
        expected = header["multipliers"][name] * before[name]
        torch.testing.assert_close(parameter, expected.to(parameter.dtype))
    inputs = torch.randn(32, 784, dtype=getattr(torch, dtype))
    assert critinit.measure(model, inputs, probes=8).is_critical(0.15)


def test_tied_weights_stay_tied(tmp_path: Path) -> None:
    out = str(tmp_path / "weights.safetensors")
    subject = (f"{OWN}:tied", "--data", "tokens:50", "--size", "8")
    assert call("tune", *subject, "--base", "kaiming", "--out", out).status == 0
    model = networks.Tied()
    model.load_state_dict(load_file(out))
    assert model.head.weight is model.embed.weight
    assert torch.equal(load_file(out)["head.weight"], model.embed.weight)


def test_measure_takes_what_tune_has_written(tmp_path: Path) -> None:
    out = str(tmp_path / "weights.safetensors")
    assert call("measure", "mlp", *TINY, "--check", "0.15").status == 1
    assert call("tune", "mlp", *TINY, "--out", out).status == 0
    ended = call("measure", "mlp", *TINY, "--probes", "4", "--weights", out, "--check", "0.15")
    assert (ended.status, ended.err) == (0, "")
    wrong = call("measure", "mlp", "--weights", out)
    assert wrong.status == 2
    assert "does not fit this network" in wrong.err
    (tmp_path / "weights.safetensors").write_bytes(b"\x80\x04pickled")
    assert "no readable .safetensors" in call("measure", "mlp", "--weights", out).err


def test_weights_have_the_usual_mode_and_go_into_a_pipe(tmp_path: Path) -> None:
    plain, pipe, usual = (tmp_path / n for n in ("weights.safetensors", "pipe", "usual"))
    usual.touch()
    assert call("tune", "mlp", *TINY, "--out", str(plain)).status == 0
    assert plain.stat().st_mode == usual.stat().st_mode
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as reader:
        read = reader.submit(pipe.read_bytes)
        assert call("tune", "mlp", *TINY, "--out", str(pipe)).status == 0
        tensors = load(read.result(timeout=10))
    assert pipe.is_fifo()
    for name, tensor in load_file(plain).items():
        assert torch.equal(tensors[name], tensor)


def test_check_exits_with_1() -> None:
    critical = ("mlp", "--set", "depth=4", "--set", "sigma_w=1.41421", "--probes", "4")
    assert call("measure", *critical, "--check", "0.1").status == 0
    ended = call("measure", *critical, "--check", "0.001", "--quiet")
    assert (ended.status, ended.out, ended.err) == (1, "", "")
    assert call("measure", *critical, "--check", "0.001").err.startswith("critinit: not critical")


@pytest.mark.skipif(PROGRAM is None, reason=HOW_TO_INSTALL)
def test_reports_in_a_browser(tmp_path: Path) -> None:
    with Browser() as browser:
        for kind, command in DOCUMENTS.items():
            page = tmp_path / f"{kind}.html"
            assert call(*command, "--report", str(page)).status == 0
            for dark in (False, True):
                browser.open(page, dark=dark)
                assert browser.complaints == []
                assert browser.requests == [page.resolve().as_uri()]
                assert "critinit " + " ".join(command) in browser.evaluate(
                    "document.body.innerText"
                )
