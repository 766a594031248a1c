import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as PillowImage

from fl_dp.data.source import Reading
from fl_dp.data.sources.folder import load_folder
from fl_dp.data.sources.hf import Column, load_saved
from fl_dp.data.sources.text import load_text
from fl_dp.errors import DataError

datasets = pytest.importorskip("datasets")
LABEL = datasets.ClassLabel(names=["no", "yes"])
INTEGER = datasets.Value("int64")
AS_THEY_ARE = Reading()


@pytest.fixture(autouse=True)
def quiet_and_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    datasets.disable_progress_bars()

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a connection was tried")

    monkeypatch.setattr(socket.socket, "connect", refuse)


def save(path: Path, columns: dict[str, list[Any]], **features: Any) -> Any:
    """Columns and their declared kinds, saved as they are or, with `test`, as the split train."""
    saved = datasets.Dataset.from_dict(columns, features=datasets.Features(features))
    saved.save_to_disk(str(path))
    return saved


def save_train(path: Path, columns: dict[str, list[Any]], **features: Any) -> None:
    """The same, as the split train of several."""
    with_splits(path, train=save(path / "alone", columns, **features))


def with_splits(path: Path, **splits: Any) -> None:
    datasets.DatasetDict(splits).save_to_disk(str(path))


def test_texts_with_the_names_of_their_classes(tmp_path: Path) -> None:
    kinds = {"text": datasets.Value("string"), "label": LABEL}
    train = save(tmp_path / "a", {"text": ["ab", "c"], "label": [1, 0]}, **kinds)
    test = save(tmp_path / "b", {"text": ["d"], "label": [1]}, **kinds)
    with_splits(tmp_path / "c", train=train, test=test)
    data = load_saved(tmp_path / "c", Reading(tokens=3), "train")
    assert (data.classes, data.vocabulary, data.y.tolist()) == (("no", "yes"), 257, [1, 0])
    assert data.x.tolist() == [[98, 99, 0], [100, 0, 0]]
    assert load_saved(tmp_path / "c", Reading(tokens=3), "test").x.tolist() == [[101, 0, 0]]
    with pytest.raises(DataError, match="column text: expected the setting tokens"):
        load_saved(tmp_path / "c", AS_THEY_ARE, "train")


def test_images_and_texts_are_those_of_a_folder(tmp_path: Path) -> None:
    file = tmp_path / "images" / "train" / "yes" / "1.png"
    file.parent.mkdir(parents=True)
    PillowImage.fromarray(np.random.default_rng(0).integers(0, 255, (4, 5, 3), dtype=np.uint8)).save(file)
    cell = {"bytes": file.read_bytes(), "path": None}
    save_train(tmp_path / "c", {"img": [cell], "labels": [1]}, img=datasets.Image(), labels=LABEL)
    reading = Reading(image_size=3, image_mode="L")
    ours = load_saved(tmp_path / "c", reading, "train")
    theirs = load_folder(tmp_path / "images", "train", reading)
    assert (ours.x == theirs.x).all()
    assert ours.raw == theirs.raw  # the same record to a ledger, wherever it lies
    save_train(tmp_path / "d", {"text": ["ab"], "label": [1]}, text=datasets.Value("string"), label=LABEL)
    (tmp_path / "t" / "train").mkdir(parents=True)
    (tmp_path / "t" / "train" / "yes.txt").write_text("ab\n")
    reading = Reading(tokens=5)
    assert load_saved(tmp_path / "d", reading, "train").raw == load_text(tmp_path / "t", reading, "train").raw


@pytest.mark.parametrize(
    ("kind", "values", "shape"),
    [
        (datasets.List(datasets.Value("float32")), [[1.0, 2.0]] * 3, (2,)),
        (datasets.List(datasets.List(datasets.Value("float64"))), [[[1.0, 2.0]]] * 3, (1, 2)),
        (datasets.Array2D((2, 3), "float32"), np.ones((3, 2, 3)).tolist(), (2, 3)),
    ],
)
def test_numbers_of_any_rank_and_numbers_to_predict(
    tmp_path: Path, kind: Any, values: list[Any], shape: tuple[int, ...]
) -> None:
    kinds = {"features": kind, "target": datasets.Value("float64")}
    save_train(tmp_path, {"features": values, "target": [0.5, 1, 2]}, **kinds)
    data = load_saved(tmp_path, AS_THEY_ARE, "train")
    assert (data.form.input_shape, data.form.targets, data.form.outputs) == (shape, "numbers", 1)
    assert data.y.tolist() == [0.5, 1, 2]


def test_tokens_are_cut_and_filled_up(tmp_path: Path) -> None:
    kinds = {"ids": datasets.List(datasets.Value("int32")), "y": LABEL}
    save_train(tmp_path / "c", {"ids": [[1, 2, 3], [4]], "y": [0, 1]}, **kinds)
    reading = Reading(tokens=2, tokenizer="words:9", columns="ids, y")
    data = load_saved(tmp_path / "c", reading, "train")
    assert (data.x.tolist(), data.vocabulary) == ([[1, 2], [4, 0]], 9)
    longer = load_saved(tmp_path / "c", Reading(tokens=7, columns="ids,y"), "train")
    assert longer.fingerprint() == data.fingerprint()
    with pytest.raises(DataError, match="every token in 0 to 2"):
        load_saved(tmp_path / "c", Reading(tokens=2, tokenizer="words:3", columns="ids,y"), "train")


def test_without_splits_each_record_decides_for_itself(tmp_path: Path) -> None:
    texts = [f"number {k}" for k in range(200)]
    kinds = {"text": datasets.Value("string"), "label": LABEL}
    save(tmp_path / "a", {"text": texts, "label": [0] * 200}, **kinds)
    save(tmp_path / "b", {"text": ["more", *texts], "label": [0] * 201}, **kinds)
    train, test, more = (
        load_saved(tmp_path / name, Reading(tokens=10), split)
        for name, split in (("a", "train"), ("a", "test"), ("b", "test"))
    )
    assert len(train) + len(test) == 200
    assert 20 <= len(test) <= 60
    assert set(test.raw) <= set(more.raw)


@pytest.mark.parametrize(
    ("columns", "kinds", "words"),
    [
        ({"text": ["a"], "label": [1]}, {"label": INTEGER}, "label cannot be labels; .*ClassLabel"),
        ({"text": ["a"], "kind": [1]}, {"kind": LABEL}, "expected columns = INPUT,LABEL, of text, kind"),
        ({"text": [None], "label": [1]}, {"label": LABEL}, "column text: values are missing"),
        ({"text": ["a"], "label": [None]}, {"label": LABEL}, "column label: values are missing"),
        ({"features": [3], "label": [1]}, {"features": INTEGER, "label": LABEL}, "cannot be an input"),
        (
            {"features": [[1.0], [1.0, 2.0]], "label": [1, 0]},
            {"features": datasets.List(datasets.Value("float32")), "label": LABEL},
            "column features: expected rows of one shape",
        ),
        ({"text": ["a"], "label": [-1]}, {"label": LABEL}, "every label in 0 to 1"),
    ],
)
def test_everything_else_is_refused_in_words(tmp_path: Path, columns: Any, kinds: Any, words: str) -> None:
    kinds = ({"text": datasets.Value("string")} if "text" in columns else {}) | kinds
    save_train(tmp_path / "c", columns, **kinds)
    with pytest.raises(DataError, match=words):
        load_saved(tmp_path / "c", Reading(tokens=4), "train")


def test_images_that_lie_elsewhere_are_not_looked_for(tmp_path: Path) -> None:
    """As nothing of `datasets` itself would save: it puts the bytes of such images in."""
    cell = datasets.Image().encode_example({"bytes": None, "path": str(tmp_path / "1.png")})
    column = Column([], "image", "column image", "image")
    with pytest.raises(DataError, match="column image: the images are stored elsewhere; save the data set"):
        column._image_bytes(cell)


def test_what_is_no_saved_data_set_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere: no such folder"):
        load_saved(tmp_path / "nowhere", AS_THEY_ARE, "train")
    with pytest.raises(DataError, match="not a data set that save_to_disk wrote"):
        load_saved(tmp_path, AS_THEY_ARE, "train")
    save_train(tmp_path / "c", {"text": ["ab"], "label": [1]}, text=datasets.Value("string"), label=LABEL)
    with pytest.raises(DataError, match="no split test; there are train"):
        load_saved(tmp_path / "c", AS_THEY_ARE, "test")
