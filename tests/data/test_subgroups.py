"""Subgroups of arrays and of folders of images, and what no TensorData can hold."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from fl_dp.data.sources.folder import load_folder
from fl_dp.data.sources.npz import load_npz
from fl_dp.data.subgroups import Subgroups
from fl_dp.data.tensor_data import TensorData
from fl_dp.errors import DataError


def saved(path: Path, **more: Any) -> Path:
    arrays = {
        "x_train": np.zeros((4, 3), dtype=np.float32),
        "y_train": np.array([0, 1, 1, 0]),
        "x_test": np.zeros((3, 3), dtype=np.float32),
        "y_test": np.array([1, 0, 0]),
        "classes": np.array(["no", "yes"]),
        "subgroup_sex": np.array(["women", "men"]),
        "subgroup_sex_test": np.array([1, 0, 1], dtype=np.uint8),
    }
    found = {name: array for name, array in (arrays | more).items() if array is not None}
    np.savez(path / "own.npz", **found)
    return path / "own.npz"


def test_of_arrays(tmp_path: Path) -> None:
    more = {"subgroup_age_train": np.zeros(4, int), "subgroup_age": np.array([1, 2])}
    file = saved(tmp_path, **more, subgroup_age_test=np.array([1, 1, 0]))
    age, sex = load_npz(file, "test").subgroups
    assert (sex.name, sex.labels, sex.codes.tolist()) == ("sex", ("women", "men"), [1, 0, 1])
    assert (age.full_names, age.codes.tolist()) == (("age = 1", "age = 2"), [1, 1, 0])
    assert load_npz(file, "train").subgroups == ()
    bare = saved(tmp_path, subgroup_sex=None, subgroup_sex_test=None)
    assert load_npz(bare, "test").subgroups == ()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"subgroup_sex": None}, "own.npz: subgroup_sex_test: expected the array subgroup_sex beside it"),
        ({"subgroup_sex_test": None}, "own.npz: expected the array subgroup_sex_test, for each test record"),
        ({"subgroups_sex": np.array(["a"])}, "unknown arrays subgroups_sex; known are .* subgroup_NAME with"),
        ({"subgroup_sex_test": np.array([0, 1])}, "subgroups of 'sex': expected int64 codes of 3 records"),
        ({"subgroup_sex_test": np.array([0, 1, 2])}, "'sex': expected every code in 0 to 1"),
        ({"subgroup_sex_test": np.array([0, 1, -1])}, "'sex': expected every code in 0 to 1"),
        ({"subgroup_sex_test": np.array(["men", "men", "women"])}, "subgroup_sex_test: expected integers"),
        ({"subgroup_sex": np.array([0.5, 1.5])}, "subgroup_sex: expected names of subgroups"),
        ({"subgroup_sex": np.array(["women", "women"])}, "subgroup 'sex = women': is declared twice"),
    ],
)
def test_arrays_that_do_not_fit_are_refused_by_name(tmp_path: Path, more: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        load_npz(saved(tmp_path, **more), "test")


DECLARED = '[columns.sex]\nsubgroups = ["F"]\n[columns.age]\nbands = [50]\n'
OF_EACH = "age,file,sex\n61,test/ill/17.png,F\n44,test/well/3.png,\n7,train/well/1.png,M\n"


def folder(path: Path, declared: str | None = DECLARED, of_each: str | None = OF_EACH) -> Path:
    for name in ("train/ill/1", "train/well/1", "test/ill/17", "test/well/3"):
        file = path / f"{name}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (4, 3)).save(file)
    for name, text in (("subgroups.toml", declared), ("subgroups.csv", of_each)):
        if text is not None:
            (path / name).write_text(text)
    return path


def test_of_images_in_a_folder(tmp_path: Path) -> None:
    sex, age = load_folder(folder(tmp_path), "test").subgroups
    assert [sex.full_names[code] for code in sex.codes] == ["sex = F", "sex = other"]
    assert [age.labels[code] for code in age.codes] == ["50 and over", "under 50"]
    assert load_folder(tmp_path, "train").subgroups == ()
    assert load_folder(folder(tmp_path / "bare", None, None), "test").subgroups == ()


@pytest.mark.parametrize(
    ("declared", "of_each", "words"),
    [
        (None, OF_EACH, r"subgroups.toml: no such file; it declares"),
        (DECLARED, None, r"subgroups.csv: no such file"),
        ("[sex]\nsubgroups = [1]", OF_EACH, r"expected parts \[columns.NAME\] and no others"),
        ("[columns.file]\nbands = [1]", OF_EACH, "with a NAME other than file"),
        ("[columns.sex]\nkind = 1", OF_EACH, r"subgroups.toml: column 'sex': expected subgroups = \["),
        ("[columns.sex]\nbands = [2, 1]", OF_EACH, "subgroups.toml: expected bands"),
        (DECLARED, OF_EACH.replace("sex", "sec"), "subgroups.csv: expected the columns file, sex, age"),
        (DECLARED, OF_EACH.replace("ill/17", "ill/18"), "no row for 1 test images, such as test/ill/17.png"),
        (DECLARED, OF_EACH + "1,test/ill/17.png,F\n", "has two rows for one image"),
    ],
)
def test_files_that_do_not_fit_are_refused_by_name(
    tmp_path: Path, declared: str | None, of_each: str | None, words: str
) -> None:
    with pytest.raises(DataError, match=words):
        load_folder(folder(tmp_path, declared, of_each), "test")


def test_one_name_for_two_subgroups_of_two_columns_is_refused() -> None:
    one = Subgroups("a", ("b = c",), torch.zeros(2, dtype=torch.int64))
    other = Subgroups("a = b", ("c",), torch.zeros(2, dtype=torch.int64))
    with pytest.raises(DataError, match="subgroup 'a = b = c': is declared twice"):
        TensorData(torch.zeros(2, 1), torch.tensor([0, 1]), ("x", "y"), subgroups=(one, other))
