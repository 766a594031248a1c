"""Persons as examples: which records count, how much, and what a ledger knows them by."""

import pytest
import torch

from fl_dp.config.data import DataSettings
from fl_dp.data.persons import PersonData, by_unit
from fl_dp.data.tensor_data import TensorData
from fl_dp.errors import ConfigError, DataError

OWNERS = ("b", "a", "b", "c", "b", "a", "b", "b")  # a has 2 records, b 5, c 1


def records(owners=OWNERS, **more):
    x = torch.arange(3.0 * len(owners)).view(-1, 3)
    return TensorData(x, torch.arange(len(owners)) % 2, ("no", "yes"), groups=owners, **more)


def persons(most=3, owners=OWNERS):
    return PersonData(records(owners), most)


def test_a_person_is_an_example_of_as_many_rows_as_anybody():
    data = persons()
    inputs, targets, shares = data.batch(torch.tensor([0, 1, 2]))
    first = inputs[:, :, 0] / 3  # the number of each row in the data
    assert len(data) == 3
    assert first.tolist() == [[1, 5, 1], [0, 2, 4], [3, 3, 3]]
    assert targets.tolist() == [[1, 1, 1], [0, 0, 0], [1, 1, 1]]
    third = pytest.approx([1 / 3] * 3)
    assert [list(row) for row in shares.tolist()] == [[0.5, 0.5, 0], third, [1, 0, 0]]


@pytest.mark.parametrize("owners", [OWNERS, ("a",) * 7 + ("b",), tuple("abcdefgh")])
@pytest.mark.parametrize("drawn", [(0, 1), ()])
def test_no_shape_tells_how_many_records_anybody_has(owners, drawn):
    inputs, targets, shares = persons(4, owners=owners).batch(torch.tensor(drawn, dtype=torch.int64))
    n = len(drawn)
    assert (inputs.shape, targets.shape, shares.shape) == ((n, 4, 3), (n, 4), (n, 4))


def test_the_fingerprint_is_of_persons_and_their_records_in_any_order():
    first = persons().fingerprint()
    order = torch.tensor([3, 1, 0, 2, 7, 5, 4, 6])
    assert PersonData(records().subset(order), 3).fingerprint() == first
    assert PersonData(records(), 2).fingerprint() == first  # the cap is no part of the data
    others = {
        persons(owners=("b", "a", "b", "c", "b", "a", "b", "c")).fingerprint(),
        persons(owners=("B", "a", "B", "c", "B", "a", "B", "B")).fingerprint(),
        records().fingerprint(),
        first,
    }
    assert len(others) == 4


def test_what_overlap_is_seen_by():
    data = persons()
    assert sorted(data.record_digests()) == records().record_digests()
    assert len(set(data.person_digests())) == 3
    again = PersonData(TensorData(torch.ones(2, 3), torch.tensor([0, 0]), ("a",), groups=("a", "x")), 1)
    assert len(set(data.person_digests()) & set(again.person_digests())) == 1
    blanks = PersonData(records(("p", "p ", " p", "P", "q", "q", "q", "q")), 2)
    assert len(blanks) == len(blanks.person_digests()) == 3


@pytest.mark.parametrize(
    ("owners", "match"), [((), "whose records they are"), (("a", " "), "have no person")]
)
def test_records_without_a_person_are_refused(owners, match):
    x, y = torch.zeros(2, 3), torch.zeros(2, dtype=torch.int64)
    with pytest.raises(DataError, match=match):
        PersonData(TensorData(x, y, ("a",), groups=owners), 1)


def test_the_settings_unit():
    data = records(grouped_by="patient")
    assert by_unit(data, DataSettings()) is data
    made = by_unit(data, DataSettings(unit="person:patient", records_per_person=4))
    assert (made.most, len(made)) == (4, 3)
    unnamed = by_unit(records(), DataSettings(unit="person:any", records_per_person=1))
    assert len(unnamed) == 3
    with pytest.raises(DataError, match=r"grouped by 'patient'; write person:patient"):
        by_unit(data, DataSettings(unit="person:user", records_per_person=4))


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"unit": "person"}, 'expected "record", or "person:COLUMN"'),
        ({"unit": "person:"}, "unit"),
        ({"unit": "patient:a"}, "unit"),
        ({"unit": "person:a"}, "records-per-person = 0: expected an integer from 1"),
        ({"unit": "person:a", "records_per_person": 5000}, "records-per-person"),
        ({"records_per_person": 5}, "no value with unit"),
    ],
)
def test_settings_that_cannot_be_meant(settings, match):
    with pytest.raises(ConfigError, match=match):
        DataSettings(**settings)


def test_what_sites_compare_says_all_of_the_unit_but_the_columns_name():
    def said(**changes):
        return DataSettings(**{"unit": "person:a", "records_per_person": 5, **changes}).unit_of_all

    assert DataSettings().unit_of_all == "record"
    assert said() == said(unit="person:b") == "person, first 5 records"
    assert said(records_per_person=6) != said()
