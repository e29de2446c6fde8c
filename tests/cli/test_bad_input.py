"""What cannot be done is refused in one line, which says what to do, and with status 2."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cli.terminal import call, process, refused

OWN = Path(__file__).with_name("networks.py")

CASES = {
    "measure": "Missing argument",
    "mesure mlp": "Did you mean 'measure'?",
    "measure mlp --prob 3": "Did you mean --probes?",
    "measure mlp --probes few": "--probes",
    "measure mlp --batch 0": "--batch",
    "measure mpl": "Did you mean 'mlp'",
    "measure resmlp_s21": "Did you mean 'resmlp_s24' or 'resmlp_s12'",
    "measure tim:resnet18": "timm:resnet18",
    "measure timm:": "timm: needs a name behind it",
    "measure timm:resnt18": "Did you mean timm:resnet18",
    "measure torchvision:vgg91": "Did you mean torchvision:vgg19",
    "measure hf:gtp2": "Did you mean hf:gpt2",
    "measure hf:nowhere.json": "nowhere.json is no readable configuration",
    "measure hf:whisper": "takes input_features",
    "measure hf:gpt2 --set n_leyer=2": "no such configuration",
    "measure nowhere.py:build": "there is no file nowhere.py",
    "measure nowhere.py": "nowhere.py:build",
    "measure OWN:plian --size 16": "Did you mean 'plain'",
    "measure OWN:plain": "--size 784",
    "measure OWN:plain --size 16 --set wdith=3": "Did you mean 'width'",
    "measure OWN:plain --size 16 --set width=wide": "a whole number is needed",
    "measure OWN:plain --size 16 --set width=1.5": "a whole number is needed",
    "measure OWN:plain --size 16 --set slope=true": "a number is needed",
    "measure OWN:plain --size 16 --set bias=2": "true or false is needed",
    "measure OWN:plain --size 16 --set bias": "key=value",
    "measure OWN:plain --size 16 --set width=1 --set width=2": "given twice",
    "measure OWN:no_network --size 16": "returned something of type int",
    "measure OWN:ends --size 16 --check 1": "OWN:ends cannot be built: SystemExit",
    "measure OWN:ends_later --size 16 --check 1": "ended the program",
    "measure OWN:fails --size 16": "OWN:fails cannot be built: RuntimeError",
    "measure OWN:raises --size 16": "no such thing at all",
    "measure OWN:plain --size 8": "before any block was finished",
    "measure OWN:tied --data tokens": "--data tokens:50257 --size 64",
    "measure mlp --set wdith=3": "Did you mean 'width'",
    "measure bn_mlp --set norm=group": "batch or layer is needed",
    "measure mlp --data digit": "Did you mean digits?",
    "measure mlp --size 3x": "3x32x32",
    "measure mlp --size 99999999999999999999": "3x32x32",
    "measure mlp --size 1000000000 --batch 1000000000": "not enough memory",
    "measure mlp --set width=100000000000": "not enough memory",
    "measure OWN:plain --size 16 --set width=100000000": "not enough memory",
    "measure mlp --seed 9223372036854775808": "--seed",
    "measure mlp --threads 100000000": "--threads",
    "measure mlp --check nan": "--check nan: give a finite number above 0",
    "measure mlp --check -1": "--check -1",
    "measure mlp --check 0": "--check 0",
    "measure OWN:tied --data tokens.npy --size 8": "no file tokens.npy",
    "measure OWN:tied --data tokens:abc --size 8": "number of tokens behind the colon",
    "measure OWN:tied --data tokens:0 --size 8": "number of tokens behind the colon",
    "measure hf:gpt2 --data tokens:50258": "50257 tokens at most",
    "measure x:y": "`x` is no source of models",
    "measure mlp --json same --report ./same": "is the same file as same",
    f"measure mlp --json {'a' * 300}": "File name too long",
    "measure hf:gpt2 --data digits": "reads token ids",
    "measure mlp --data nowhere.npy": "no file nowhere.npy",
    "measure vgg11 --data digits": "32 pixels",
    "measure mlp --device gpu": "--device gpu",
    "measure mlp --json nowhere/x.json": "there is no folder",
    "measure mlp --report .": "it is a folder",
    "measure mlp --weights nowhere.safetensors": "no such file",
    "tune mlp --out nowhere/x.safetensors": "there is no folder",
    "tune mlp --solver sgd --lr fast": "a number above 0",
    "tune mlp --scale nothing": "nothing",
    "scan mlp --sizes 2,many": "8,32,128",
    "scan mlp --sizes 4": "two",
    "compare mlp --init kaimin": "Did you mean 'kaiming'",
    "theory phase --activation gulu": "Did you mean",
    "models resnet0815": "no model has 'resnet0815'",
    "data cifar100": "Did you mean 'cifar10'?",
    "data cifar10 --archive nowhere.tar.gz": "nowhere.tar.gz",
}


@pytest.mark.parametrize("line", CASES)
def test_bad_input(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CRITINIT_CACHE", str(tmp_path / "cache"))
    said = refused(*line.replace("OWN", str(OWN)).split())
    assert CASES[line].replace("OWN", str(OWN)) in said
    assert not [path for path in tmp_path.iterdir() if path.name != "cache"]


def test_a_link_to_itself(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert "link to itself" in refused("measure", "mlp", "--json", str(tmp_path / "loop"))


def test_a_folder_that_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write anywhere
    assert "no permission" in refused("measure", "mlp", "--json", str(tmp_path / "x.json"))


def test_an_array_that_claims_too_much(tmp_path: Path) -> None:
    file = tmp_path / "huge.npy"
    with file.open("wb") as out:
        header = {"descr": "<f4", "fortran_order": False, "shape": (10**10, 800)}
        np.lib.format.write_array_header_1_0(out, header)
    assert "does not fit into memory" in refused("measure", "mlp", "--data", str(file))


def test_a_network_that_breaks_is_shown_up_to_there() -> None:
    ended = call("measure", f"{OWN}:breaks", "--size", "16")
    assert ended.status == 2
    assert [line.split()[:2] for line in ended.out.splitlines()[2:]] == [["0", "0"], ["1", "2"]]
    assert "produced NaN" in ended.err.splitlines()[-1]


def test_debug_shows_where_it_was() -> None:
    ended = call("measure", f"{OWN}:fails", "--size", "16", "--debug")
    assert ended.status == 2
    assert "Traceback" in ended.err
    assert "in fails" in ended.err
    assert ended.err.splitlines()[-1].startswith("critinit: ")


def test_what_was_not_foreseen_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("of all things")

    monkeypatch.setattr("critinit.cli.measure.prepare", broken)
    assert "ZeroDivisionError: of all things" in refused("measure", "mlp")


def test_a_real_process_ends_in_the_same_way() -> None:
    ended = process("measure", "mpl")
    assert (ended.status, ended.out) == (2, "")
    assert ended.err.startswith("critinit: there is no model 'mpl'")
    assert len(ended.err.splitlines()) == 1
