"""Trees of image files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from critinit.data import CorruptDataError, DataError, MissingDataError, batch, load


def picture(
    path: Path, colour: object = (255, 0, 0), size: tuple[int, int] = (6, 4), mode: str = "RGB"
) -> None:
    """``size`` is width × height, as pillow has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, colour).save(path)  # type: ignore[arg-type]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Red apples and blue berries; one berry lies deeper, and there are other things."""
    root = tmp_path / "tree"
    picture(root / "train" / "berry" / "deep" / "2.PNG", (0, 0, 255))
    picture(root / "train" / "berry" / "1.png", (0, 0, 255))
    picture(root / "train" / "apple" / "1.bmp")
    (root / "train" / "apple" / "notes.txt").write_text("red")
    (root / "train" / "apple" / ".hidden.png").write_text("no image")
    (root / "train" / "empty").mkdir()
    picture(root / "val" / "berry" / "1.png", (0, 0, 128))
    return root


def test_each_folder_is_a_class(tree: Path) -> None:
    data = load(f"folder:{tree}")
    assert data.class_names == ("apple", "berry")
    assert data.labels is not None
    assert data.labels.tolist() == [0, 1, 1]
    assert data.images.shape == (3, 3, 4, 6)
    assert data.images.dtype == torch.uint8
    assert data.images[:, :, 0, 0].tolist() == [[255, 0, 0], [0, 0, 255], [0, 0, 255]]
    torch.testing.assert_close(data.mean, torch.tensor([1 / 3, 0, 2 / 3], dtype=torch.float64))


def test_the_splits(tree: Path, tmp_path: Path) -> None:
    test = load(f"folder:{tree}", "test")
    assert test.labels is not None
    assert test.labels.tolist() == [1], "by the classes of training"
    assert torch.equal(test.mean, load(f"folder:{tree}").mean)
    without = load(f"folder:{tree / 'train'}")
    assert len(without) == 3
    with pytest.raises(MissingDataError, match="no test images"):
        load(f"folder:{tree / 'train'}", "test")
    picture(tree / "val" / "cherry" / "1.png")
    with pytest.raises(DataError, match="classes that training lacks: cherry"):
        load(f"folder:{tree}", "test")
    picture(tmp_path / "only" / "val" / "berry" / "1.png")
    with pytest.raises(MissingDataError, match="has val but no train"):
        load(f"folder:{tmp_path / 'only'}")


def test_images_without_classes(tmp_path: Path) -> None:
    for i in range(3):
        picture(tmp_path / f"{i}.png", (i, 0, 0))
    data = load(f"folder:{tmp_path}")
    assert data.labels is None
    assert data.classes == 0
    assert data.images[:, 0, 0, 0].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("mode", "colour", "expected"),
    [
        ("L", 7, [7, 7, 7]),
        ("1", 1, [255, 255, 255]),
        ("P", 0, [0, 0, 0]),
        ("LA", (9, 100), [9, 9, 9]),
        ("RGBA", (1, 2, 3, 100), [1, 2, 3]),
    ],
)
def test_every_mode_becomes_colour(
    tmp_path: Path, mode: str, colour: object, expected: list[int]
) -> None:
    picture(tmp_path / "1.png", colour, mode=mode)
    assert load(f"folder:{tmp_path}").images[0, :, 0, 0].tolist() == expected


def test_grey(tree: Path) -> None:
    data = load(f"folder:{tree}", channels=1)
    assert data.images[:, :, 0, 0].tolist() == [[76], [29], [29]]
    assert load(f"folder:{tree}", channels=3).images.shape[1] == 3
    with pytest.raises(DataError, match="channels=2"):
        load(f"folder:{tree}", channels=2)


@pytest.mark.parametrize("name", ["wide.png", "wide.jpg"])
def test_a_size_cuts_out_the_middle_and_keeps_proportions(tmp_path: Path, name: str) -> None:
    wide = np.zeros((80, 240, 3), np.uint8)
    wide[:, 80:160] = 200
    Image.fromarray(wide).save(tmp_path / name)
    square = load(f"folder:{tmp_path}", size=20).images
    assert square.shape == (1, 3, 20, 20)
    assert (square[0, :, 2:-2, 2:-2].int() - 200).abs().max() < 3
    banner = load(f"folder:{tmp_path}", size=(10, 30)).images[0, 0].int()
    assert banner.shape == (10, 30)
    assert int(banner[:, :8].max()) < 30
    assert int(banner[:, 12:18].min()) > 190


def test_different_sizes_need_one(tree: Path) -> None:
    picture(tree / "train" / "apple" / "2.png", size=(3, 9))
    with pytest.raises(DataError, match=r"2\.png is 9×3 where .*1\.bmp is 4×6: ask for a size"):
        load(f"folder:{tree}")
    assert load(f"folder:{tree}", size=5).images.shape == (4, 3, 5, 5)
    x = batch(f"folder:{tree}", 4, 5).double()
    torch.testing.assert_close(x.mean((0, 2, 3))[::2], torch.zeros(2).double(), rtol=0, atol=1e-5)
    torch.testing.assert_close(x.square().mean((0, 2, 3))[::2], torch.ones(2).double())


def test_a_batch_opens_no_more_than_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("critinit.data._folder.MEASURED", 3)
    for i in range(9):
        picture(tmp_path / f"{i}.png", (i, 0, 0))
    for i in (1, 2, 3, 5, 6, 7):
        (tmp_path / f"{i}.png").write_text("no image, unless it is drawn")
    generator = torch.Generator()
    seed = next(
        s for s in range(999) if int(torch.randperm(9, generator=generator.manual_seed(s))[0]) == 4
    )
    x = batch(f"folder:{tmp_path}", 1, generator=generator.manual_seed(seed))
    assert float(x[0, 0].abs().max()) < 1e-5, "of 0, 4 and 8, 4 is the mean"


def test_images_that_cannot_be_read(tmp_path: Path) -> None:
    picture(tmp_path / "1.png", size=(60, 40))
    whole = (tmp_path / "1.png").read_bytes()
    for broken in (b"", b"text", whole[: len(whole) // 2]):
        (tmp_path / "1.png").write_bytes(broken)
        with pytest.raises(CorruptDataError, match=r"1\.png is no readable image"):
            load(f"folder:{tmp_path}")


def test_deep_images_are_not_clipped_in_silence(tmp_path: Path) -> None:
    Image.fromarray(np.full((4, 4), 4000, np.uint16)).save(tmp_path / "1.png")
    with pytest.raises(DataError, match="more than 8 bits"):
        load(f"folder:{tmp_path}")


def test_no_images(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="There is no folder"):
        load(f"folder:{tmp_path / 'nowhere'}")
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "notes.txt").touch()
    with pytest.raises(DataError, match="There is no image in"):
        load(f"folder:{tmp_path}")
