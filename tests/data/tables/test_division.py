"""Subgroups of a table: by declared values and bounds, for test records; sites need not agree on them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from fl_dp.config.data import DataSettings
from fl_dp.data.source import data_of
from fl_dp.data.subgroups import Subgroups
from fl_dp.data.tables.encode import encode
from fl_dp.data.tables.files import read_csv
from fl_dp.data.tables.parse import read_schema
from fl_dp.data.tensor_data import Split, TensorData
from fl_dp.errors import DataError

Written = Callable[..., Path]

DIVIDED = {
    'range = [20, 80]\nif-missing = "encode"': 'range = [20, 80]\nif-missing = "encode"\nbands = [35, 80]',
    'kind = "ignore"': 'kind = "subgroup"\nsubgroups = { first = ["a", "b"], "last" = ["e"] }',
    "categories = [1, 2, 3]": "categories = [1, 2, 3]\nsubgroups = [2]",
}


def divided(schema: str) -> str:
    for old, new in DIVIDED.items():
        assert old in schema
        schema = schema.replace(old, new)
    return schema


def read(path: Path, split: Split | None = None) -> TensorData:
    return encode(read_csv(path), read_schema(path.with_suffix(".schema.toml")), split)


def names(one: Subgroups) -> list[str]:
    return [one.labels[code] for code in one.codes.tolist()]


def test_values_and_bounds_say_which_subgroup_a_record_is_in(written: Written, schema_text: str) -> None:
    data = read(written(schema=divided(schema_text)))
    assert [one.name for one in data.subgroups] == ["age", "pain", "note"]
    age, pain, note = data.subgroups
    assert age.labels == ("under 35", "35 to under 80", "80 and over", "other")
    # 20, 80, 35, "?", 999: a bound is in the upper one, and what is no number in none
    assert names(age) == ["under 35", "80 and over", "35 to under 80", "other", "80 and over"]
    assert names(pain) == ["other", "2", "other", "other", "other"]  # 2.0 is 2
    assert names(note) == ["first", "first", "other", "other", "last"]
    assert pain.full_names == ("pain = 2", "pain = other")


def test_subgroups_move_no_input_identity_or_what_sites_agree_on(written: Written, schema_text: str) -> None:
    path = written()
    without, before = read(path), read_schema(path.with_suffix(".schema.toml"))
    within, after = read(written(schema=divided(schema_text))), read_schema(path.with_suffix(".schema.toml"))
    assert within.x.tolist() == without.x.tolist()
    assert within.fingerprint() == without.fingerprint()
    assert (after.meaning, after.form) == (before.meaning, before.form)


def test_nothing_that_trains_reads_them(written: Written, schema_text: str) -> None:
    schema = divided(schema_text).replace('split = "none"', 'split = "hash"')
    rows = "".join(f"{20 + k % 60},1,{k},{k % 2}\n" for k in range(100))
    path = written(table="age,pain,note,ill\n" + rows, schema=schema)
    assert data_of(DataSettings(data=f"csv:{path}"), "train").subgroups == ()
    test = data_of(DataSettings(data=f"csv:{path}"), "test")
    assert [len(one.codes) for one in test.subgroups] == [len(test)] * 3


def test_records_keep_their_subgroups_when_some_are_taken(written: Written, schema_text: str) -> None:
    import torch

    data = read(written(schema=divided(schema_text)))
    assert names(data.subset(torch.tensor([4, 0])).subgroups[0]) == ["80 and over", "under 35"]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ('kind = "subgroup"', r"'note': expected subgroups = \[VALUE, ...\] or bands"),
        ('kind = "subgroup"\nsubgroups = ["a"]\nbands = [1]', "'note': expected .* or bands, not both"),
        ('kind = "subgroup"\nsubgroups = []', "'note': expected at least one subgroup"),
        ('kind = "subgroup"\nsubgroups = { a = [1], b = [1.0] }', "'note': a value appears twice"),
        ('kind = "subgroup"\nsubgroups = ["other"]', "'note': subgroups: 'other' is the name for all cells"),
        (
            'kind = "subgroup"\nsubgroups = [["a"]]',
            "'note': subgroups: expected a list of strings and numbers",
        ),
        ('kind = "subgroup"\nbands = [2, 1]', r"'note': expected bands = \[BOUND, ...\], public numbers"),
        ('kind = "subgroup"\nbands = [nan]', "'note': expected bands"),
        ('kind = "subgroup"\nbands = [true]', "'note': expected bands"),
        ('kind = "subgroup"\nsubgroup = ["a"]', "'note': unknown key 'subgroup'; known are bands, kind, sub"),
        ('kind = "ignore"\nsubgroups = ["a"]', "'note': unknown key 'subgroups'"),
        ('kind = "subgroup"\nsubgroups = [1, "1"]', "subgroup 'note = 1': is declared twice"),
    ],
)
def test_what_is_not_complete_is_refused_by_name(
    written: Written, schema_text: str, said: str, words: str
) -> None:
    with pytest.raises(DataError, match=words):
        read(written(schema=schema_text.replace('kind = "ignore"', said)))
