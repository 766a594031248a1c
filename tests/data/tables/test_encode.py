"""What becomes of a table: by the schema alone, and never by what other records hold."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from fl_dp.data.persons import PersonData
from fl_dp.data.tables.encode import encode, for_testing, record_digests
from fl_dp.data.tables.files import read_csv
from fl_dp.data.tables.parse import read_schema
from fl_dp.data.tensor_data import Split, TensorData
from fl_dp.errors import DataError

Written = Callable[..., Path]


def read(path: Path, split: Split | None = None) -> TensorData:
    schema = read_schema(path.with_suffix(".schema.toml"))
    return encode(read_csv(path, header=schema.header, separator=schema.separator), schema, split)


def test_declared_ranges_and_categories_make_the_inputs(written: Written) -> None:
    data = read(written())
    #    age, missing?  pain: 1  2  3  other  missing
    assert data.x.tolist() == [
        [-1.0, 0.0, 1, 0, 0, 0, 0],
        [1.0, 0.0, 0, 1, 0, 0, 0],
        [-0.5, 0.0, 0, 0, 0, 1, 0],
        [0.0, 1.0, 0, 0, 0, 0, 1],
        [1.0, 0.0, 0, 0, 1, 0, 0],
    ]
    assert data.y.tolist() == [0, 1, 1, 0, 1]
    assert data.classes == ("no", "yes")
    assert data.form == read_schema(written().with_suffix(".schema.toml")).form


def test_points_become_evenly_spaced(written: Written, schema_text: str) -> None:
    skewed = schema_text.replace("range = [20, 80]", "points = [20, 30, 80]")
    assert skewed != schema_text
    even, uneven = read(written()).x[:, 0], read(written(schema=skewed)).x[:, 0]
    ages = [20 + 60 * (one + 1) / 2 for one in even.tolist()]
    expected = [(age - 30) / 10 if age <= 30 else (age - 30) / 50 for age in ages]
    expected[3] = 0.0  # a missing cell
    assert uneven.tolist() == pytest.approx(expected)


def test_a_record_is_encoded_the_same_whatever_else_is_there(written: Written, table_text: str) -> None:
    before = read(written())
    after = read(written(table_text + "-1e9,1,f,0\n1e9,7,g,1\n"))
    assert torch.equal(after.x[: len(before)], before.x)
    assert after.raw[: len(before)] == before.raw
    header, _, *others = table_text.splitlines()  # the first record has the least number of all
    assert torch.equal(read(written("\n".join([header, *others]))).x, before.x[1:])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("range = [20, 80]", "range = [0, 150]"),
        ("categories = [1, 2, 3]", "categories = [3, 2]"),
        ('if-missing = "encode"', 'if-missing = "encode" # other words'),
        ("classes = { no = [0], yes = [1, 2] }", "classes = [0, 1, 2]"),
        ('[columns.note]\nkind = "ignore"', '[columns.note]\nkind = "category"\ncategories = ["a"]'),
    ],
)
def test_another_schema_buys_no_fresh_budget(written: Written, schema_text: str, old: str, new: str) -> None:
    first = read(written())
    assert old in schema_text
    second = read(written(schema=schema_text.replace(old, new)))
    assert second.fingerprint() == first.fingerprint()
    assert second.record_digests() == first.record_digests()


@pytest.mark.parametrize("changed", ["21,1,a,0", "20,1,z,0", "20,1,a,1", "1,20,a,0", "20,1,,0"])
def test_a_changed_cell_changes_the_record_in_ignored_columns_too(written: Written, changed: str) -> None:
    one = read(written("age,pain,note,ill\n20,1,a,0\n80,2,b,1\n"))
    other = read(written(f"age,pain,note,ill\n{changed}\n80,2,b,1\n"))
    assert len(set(one.raw) & set(other.raw)) == 1
    assert other.fingerprint() != one.fingerprint()


def test_without_a_header_columns_count_by_their_place(written: Written, schema_text: str) -> None:
    schema = "header = false\n" + schema_text
    first = read(written("20,1,a,0\n80,2,b,1\n", schema))
    renamed = read(written("20,1,a,0\n80,2,b,1\n", schema.replace("columns.note", "columns.remark")))
    assert first.x[0].tolist() == [-1.0, 0.0, 1, 0, 0, 0, 0]
    assert renamed.fingerprint() == first.fingerprint()
    with pytest.raises(DataError, match="3 columns and no header, the schema 4"):
        read(written("20,1,a\n", schema))


def test_a_baseline_has_no_column_and_a_stranger_is_refused(written: Written, schema_text: str) -> None:
    categories = "categories = [1, 2, 3]"
    schema = schema_text.replace(categories, f"{categories}\nbaseline = 1\nother = false")
    data = read(written("age,pain,note,ill\n20,1,a,0\n20,3,a,0\n20,?,a,0\n", schema))
    assert data.x[:, 2:].tolist() == [[0, 0, 0], [0, 1, 0], [0, 0, 1]]
    with pytest.raises(DataError, match="column 'pain': some cells have values that the schema does not"):
        read(written("age,pain,note,ill\n20,77,a,0\n", schema))


@pytest.mark.parametrize(
    ("header", "row", "words"),
    [
        ("age,pain,note,ill", "47.11,1,a,8", "column 'ill': some cells have values that the schema does not"),
        ("age,pain,note,ill", "secret,1,a,0", "column 'age': some cells are neither numbers nor declared"),
        ("age,pain,note,ill,secret", "20,1,a,0,x", "not say what these columns of .* are, counted from 1: 5"),
        (
            "age,note,ill",
            "20,a,0",
            r"there is no column 'pain'.* the file has 3 of the schema's 4 columns\. The schema may be",
        ),
        ("age,pain,note,ill,age", "20,1,a,0,30", "names a column twice"),
    ],
)
def test_what_the_schema_does_not_know_is_refused_and_not_quoted(
    written: Written, header: str, row: str, words: str
) -> None:
    with pytest.raises(DataError, match=words) as error:
        read(written(f"{header}\n{row}\n"))
    assert not any(cell in str(error.value) for cell in ("47.11", "secret"))


@pytest.mark.parametrize(
    ("decimal", "cell", "words"),
    [
        (".", "47,11", "with a decimal comma: the schema's decimal = ',' reads"),
        (",", "47.11", "decimal point"),
        (".", "forty", ""),
    ],
)
def test_numbers_with_another_decimal_mark_are_told_and_not_quoted(
    written: Written, schema_text: str, decimal: str, cell: str, words: str
) -> None:
    schema = f'separator = ";"\ndecimal = "{decimal}"\n' + schema_text
    path = written(f"age;pain;note;ill\n{cell};1;a;0\n", schema)
    with pytest.raises(DataError, match=f"column 'age': some cells .*{words}") as error:
        read(path)
    assert "47" not in str(error.value).replace(str(path), "")
    assert ("decimal" in str(error.value)) == bool(words)


def test_decimal_commas_are_read_and_make_no_other_record(written: Written, schema_text: str) -> None:
    """What records have spent goes by their cells as they stand, however the schema reads them."""
    table = "age;pain;note;ill\n20,5;1;k.A.;0\n80;2,0;1.234;1\n35,25;9;c,d;2\n?;?;;0\n"
    schema = 'separator = ";"\n' + schema_text
    points = read(written(table.replace(",", "."), schema))
    commas = read(written(table, 'decimal = ","\n' + schema))
    assert torch.equal(commas.x, points.x)
    assert torch.equal(commas.y, points.y)
    ignored = schema.replace('kind = "number"\nrange = [20, 80]\nif-missing = "encode"', 'kind = "ignore"')
    unread = read(written(table, ignored))
    assert unread.x.shape[1] == commas.x.shape[1] - 2
    assert unread.raw == commas.raw
    assert unread.fingerprint() == commas.fingerprint()


def test_records_with_missing_cells_may_be_dropped(written: Written, schema_text: str) -> None:
    schema = schema_text.replace('if-missing = "encode"', 'if-missing = "drop"', 1)
    data = read(written(schema=schema))
    assert data.x.shape == (4, 6)
    assert len(data.raw) == 4
    # one dropped has no label either
    with pytest.raises(DataError, match=r"column 'ill' \(record 3\): there"):
        read(written("age,pain,note,ill\n?,1,a,?\n20,1,a,0\n20,1,a,?\n", schema))
    with pytest.raises(DataError, match="there are no test records"):
        read(written(), "test")
    with pytest.raises(DataError, match="no usable records"):
        read(written("age,pain,note,ill\n?,1,a,0\n", schema))


TARGETS = """
split = "none"
[columns]
a = {{ kind = "number", range = [0, 1] }}
y = {{ kind = "{kind}", {first} }}
z = {{ kind = "{kind}", {second} }}
"""


@pytest.mark.parametrize(
    ("kind", "first", "second", "rows", "targets"),
    [
        (
            "target",
            "range = [0, 10]",
            "range = [-1, 1]",
            "0,0,1\n1,2.5,0\n0,99,-9",
            [[-1, 1], [-0.5, 0], [1, -1]],
        ),
        ("label", 'classes = ["n", "y"]', "classes = [0, 1]", "0,n,1\n1,y,0", [[0, 1], [1, 0]]),
    ],
)
def test_targets_are_scaled_by_their_declared_range_and_several_labels_are_zeros_and_ones(
    written: Written, kind: str, first: str, second: str, rows: str, targets: list[list[float]]
) -> None:
    schema = TARGETS.format(kind=kind, first=first, second=second)
    data = read(written(f"a,y,z\n{rows}\n", schema))
    assert data.y.tolist() == targets
    assert (data.form.outputs, data.form.targets, data.classes) == (2, "numbers", ("y", "z"))


PEOPLE = """
split = "hash"
[columns.user]
kind = "group"
[columns.a]
kind = "number"
range = [0, 1000]
[columns.y]
kind = "label"
classes = [0, 1]
"""


def people(count: int, each: int = 1) -> str:
    rows = [f"u{person},{person + turn},{person % 2}" for person in range(count) for turn in range(each)]
    return "user,a,y\n" + "\n".join(rows) + "\n"


def test_the_split_is_a_fifth_and_does_not_move_when_records_are_added(written: Written) -> None:
    alone = PEOPLE.replace('kind = "group"', 'kind = "ignore"')
    few, many = people(500), people(1000)
    for schema in (alone, PEOPLE):
        train, test = read(written(few, schema), "train"), read(written(few, schema), "test")
        assert 70 <= len(test) <= 130
        assert len(train) + len(test) == 500
        assert set(test.raw) <= set(read(written(many, schema), "test").raw)
        assert set(train.raw) <= set(read(written(many, schema), "train").raw)


def test_a_person_is_on_one_side_alone(written: Written) -> None:
    path = written(people(60, each=5), PEOPLE)
    train, test = read(path, "train"), read(path, "test")
    assert len(set(train.groups)) + len(set(test.groups)) == 60
    assert not set(train.groups) & set(test.groups)
    assert train.grouped_by == "user"
    assert len(train) == 5 * len(set(train.groups))


def test_a_column_may_say_which_records_are_for_testing(written: Written) -> None:
    schema = PEOPLE.replace('kind = "group"', 'kind = "split"\ntrain = ["u0", "u1"]\ntest = ["u2"]')
    path = written(people(3), schema)
    assert read(path, "test").y.tolist() == [0]
    assert read(path, "train").y.tolist() == [0, 1]
    with pytest.raises(DataError, match="column 'user': some cells have values that the schema does not"):
        read(written(people(4), schema), "train")


def test_a_record_has_a_person_and_a_site_whose_names_make_no_new_record(written: Written) -> None:
    """Renamed patients get no second budget, neither by the record nor by the person."""
    text = "user,a,y,hospital\nu0,1,0,north\nu1,2,1,south\nu0,3,1,south\n"
    schema = PEOPLE.replace('"hash"', '"none"') + '[columns.hospital]\nkind = "site"\n'
    data = read(written(text, schema))
    assert (data.groups, data.grouped_by) == (("u0", "u1", "u0"), "user")
    assert (data.sites, data.sites_by) == (("north", "south", "south"), "hospital")
    assert data.form.input_shape == (1,)
    renamed = text.replace("north", "A").replace("south", "B").replace("u1", "x")
    again = read(written(renamed, schema))
    assert again.raw == data.raw
    assert PersonData(again, 1).record_digests() == PersonData(data, 1).record_digests()
    assert data.subset(torch.tensor([2])).sites == ("south",)


def test_all_columns_with_missing_cells_are_told_with_what_each_may_say(
    written: Written, schema_text: str
) -> None:
    schema = schema_text.replace('if-missing = "encode"\n', "").replace('kind = "ignore"', 'kind = "group"')
    with pytest.raises(DataError) as error:
        read(written("age,pain,note,ill\n?,1,a,0\n20,?,?,0\n?,1,a,0\n?,1,?,0\n?,1,a,0\n?,1,a,0\n", schema))
    assert str(error.value).endswith(
        "column 'age' (records 1, 3, 4 and 2 more): there are missing cells; the schema may say if-missing = "
        '"drop" or "encode"; column \'pain\' (record 2): there are missing cells; the schema may say '
        'if-missing = "drop" or "encode"; column \'note\' (records 2, 4): there are missing cells; the '
        'schema may say if-missing = "drop".'
    )


def cells(*texts: str) -> np.ndarray:
    return np.array(texts, dtype=object)


def test_the_order_of_columns_does_not_count_their_names_do() -> None:
    one = record_digests({"a": cells("1", "2"), "b": cells("3", "4")})
    assert record_digests({"b": cells("3", "4"), "a": cells("1", "2")}) == one
    assert not set(record_digests({"a": cells("3", "4"), "b": cells("1", "2")})) & set(one)
    assert record_digests({"a": cells("1.0", "2"), "b": cells("3", "4.00")}) == one


def test_digests_and_split_are_those_of_earlier_versions() -> None:
    """What records have spent hangs on the first, which ones are tested on the second."""
    digests = record_digests({"a": cells("1", "x"), "b": cells("", "ü")})
    assert [one.hex()[:16] for one in digests] == ["8d792d649dace668", "a0eb193f001693d3"]
    chosen = for_testing(tuple(bytes([i]) for i in range(40)))
    assert np.flatnonzero(chosen).tolist() == [1, 4, 6, 19, 22, 23, 27, 28, 36, 38]
