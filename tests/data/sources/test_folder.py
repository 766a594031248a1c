from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fl_dp.data.source import Reading
from fl_dp.data.sources.folder import load_folder
from fl_dp.errors import DataError


def save(path: Path, value: int = 0, size: tuple[int, int] = (4, 3), mode: str = "L") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, value if mode == "L" else (value, 1, 2)).save(path)


def test_train_and_test_folders(tmp_path: Path) -> None:
    save(tmp_path / "train" / "dog" / "1.png", 7)
    save(tmp_path / "train" / "cat" / "1.png", 5)
    save(tmp_path / "train" / "cat" / "deeper" / "2.PNG", 6)
    save(tmp_path / "test" / "dog" / "9.png", 9)
    train, test = load_folder(tmp_path, "train"), load_folder(tmp_path, "test")
    assert train.classes == test.classes == ("cat", "dog")
    assert train.form.input_shape == (1, 3, 4)
    assert train.x[:, 0, 0, 0].tolist() == [5, 6, 7]
    assert train.y.tolist() == [0, 0, 1]
    assert test.y.tolist() == [1]


def test_without_train_and_test_names_decide_and_never_otherwise(tmp_path: Path) -> None:
    """An image that changed sides would be trained on in one run and tested on in the next."""
    for k in range(30):
        save(tmp_path / ("cat" if k % 2 else "dog") / f"{k:02}.png", k)
    train, test = (load_folder(tmp_path, split).x[:, 0, 0, 0].tolist() for split in ("train", "test"))
    assert sorted(train + test) == list(range(30))
    assert test == [13, 0, 6]


def test_what_is_no_image_is_left_out_and_an_empty_folder_declares_a_class(tmp_path: Path) -> None:
    save(tmp_path / "train" / "dog" / "1.png")
    (tmp_path / "train" / "dog" / "notes.txt").write_text("no image")
    (tmp_path / "train" / "dog" / "._1.png").write_bytes(b"a file system's own")
    (tmp_path / "train" / ".hidden").mkdir()
    (tmp_path / "train" / "cat").mkdir()
    data = load_folder(tmp_path, "train")
    assert (data.y.tolist(), data.classes) == ([1], ("cat", "dog"))


def test_a_missing_or_empty_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere: no such folder"):
        load_folder(tmp_path / "nowhere", "train")
    with pytest.raises(DataError, match="no train images; expected one folder of images per class"):
        load_folder(tmp_path, "train")


MODES = r"1\.png: expected an image of colour mode L or RGB, not "


@pytest.mark.parametrize(
    ("images", "reading", "words"),
    [
        ([("L", (4, 3)), ("L", (4, 4))], Reading(), r"2\.png: .* shape \(3, 4\).* like 1\.png, not \(4, 4\)"),
        ([("L", (4, 3)), ("RGB", (4, 3))], Reading(), r"2\.png: expected .* not \(3, 4, 3\)"),
        ([("L", (4, 3)), ("RGB", (9, 9))], Reading(image_size=6), r"2\.png: .*image-size and image-mode"),
        *(([(mode, (4, 3))], Reading(), MODES + mode) for mode in ("RGBA", "P", "I;16", "1")),
        ([("I;16", (4, 3))], Reading(image_mode="L"), r"1\.png: .* not I;16; .* convert it to 8 bits first"),
        ([("CMYK", (4, 3))], Reading(image_mode="L"), r"1\.png: .* not CMYK; convert it to L or RGB first"),
    ],
)
def test_images_that_are_not_alike_are_refused(tmp_path: Path, images, reading: Reading, words: str) -> None:
    for number, (mode, size) in enumerate(images, start=1):
        path = tmp_path / "train" / "dog" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new(mode, size).save(path, "tiff" if mode == "CMYK" else "png")
    with pytest.raises(DataError, match=words):
        load_folder(tmp_path, "train", reading)


@pytest.mark.parametrize("keep", [0, 20, -30])
def test_a_truncated_image_is_named(tmp_path: Path, keep: int) -> None:
    file = tmp_path / "train" / "dog" / "1.png"
    file.parent.mkdir(parents=True)
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (30, 30), dtype=np.uint8)).save(file)
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(DataError, match=r"1\.png: expected a readable image \(\w+\): it may be truncated"):
        load_folder(tmp_path, "train")


def test_images_are_brought_to_one_size_and_mode(tmp_path: Path) -> None:
    save(tmp_path / "train" / "dog" / "1.png", 9)
    save(tmp_path / "train" / "dog" / "2.png", 9, size=(30, 7), mode="RGB")
    for number, mode in enumerate(("RGBA", "P", "LA", "1")):
        Image.new(mode, (5, 5)).save(tmp_path / "train" / "dog" / f"3{number}.png")
    colour = load_folder(tmp_path, "train", Reading(image_size=6, image_mode="RGB"))
    assert colour.form.input_shape == (3, 6, 6)
    assert colour.x[0].unique().tolist() == [9]
    assert colour.x[1, :, 0, 0].tolist() == [9, 1, 2]
    grey = load_folder(tmp_path, "train", Reading(image_size=6, image_mode="L"))
    assert grey.form.input_shape == (1, 6, 6)
    assert len(grey) == 6


def test_resizing_is_pillows_bicubic(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 255, (9, 13), dtype=np.uint8)
    (tmp_path / "train" / "dog").mkdir(parents=True)
    Image.fromarray(pixels).save(tmp_path / "train" / "dog" / "1.png")
    wanted = np.asarray(Image.fromarray(pixels).resize((5, 5), Image.Resampling.BICUBIC))
    assert (load_folder(tmp_path, "train", Reading(image_size=5)).x[0, 0].numpy() == wanted).all()


def test_another_size_buys_no_fresh_budget(tmp_path: Path) -> None:
    """A ledger knows images by their files, not by what they were brought to."""
    save(tmp_path / "train" / "dog" / "1.png", 9)
    save(tmp_path / "train" / "cat" / "2.png", 7)
    first = load_folder(tmp_path, "train", Reading(image_size=4, image_mode="L"))
    other = load_folder(tmp_path, "train", Reading(image_size=6, image_mode="RGB"))
    assert first.fingerprint() == other.fingerprint()
    (tmp_path / "train" / "cat" / "2.png").rename(tmp_path / "train" / "dog" / "2.png")
    assert load_folder(tmp_path, "train", Reading(image_size=4)).fingerprint() != first.fingerprint()
