"""The name of a client's data in its ledger says all that decides which records they are.

What the ledger makes of it is in tests/accounting/ledger/test_identity.py.
"""

import dataclasses

import pytest
import torch

from fl_dp.config.client import ClientConfig
from fl_dp.config.run import RunConfig
from fl_dp.data.persons import PersonData, digests_of_names
from fl_dp.data.tensor_data import TensorData
from fl_dp.errors import DataError
from fl_dp.federation.client.registration import auto_size, dataset_name, public_name, registration_of

WHOLE = ClientConfig(client="north", ledger="unused", data="npz:a.npz")
PART = dataclasses.replace(WHOLE, partition_id=1, num_partitions=3)
DATA = TensorData(torch.arange(120.0).view(30, 4), torch.zeros(30, dtype=torch.int64), ("a",))


@pytest.mark.parametrize(
    ("changes", "records", "rule"),
    [
        ({"num_partitions": 1, "partition_id": 0}, "npz:a.npz", ""),
        ({}, "npz:a.npz", "iid, seed 0"),
        ({"seed": 7}, "npz:a.npz", "iid, seed 7"),
        ({"partition": "dirichlet:0.5"}, "npz:a.npz", "dirichlet 0.5, seed 0"),
        ({"partition": "pathological:2"}, "npz:a.npz", "pathological 2, seed 0"),
        ({"partition": "sizes:9, 8,7"}, "npz:a.npz", "sizes 9,8,7, seed 0"),
        ({"unit": "person:a", "records_per_person": 2}, "npz:a.npz", "iid, seed 0, of persons"),
        ({"client": "south", "epsilon": 1.0, "device": "cpu"}, "npz:a.npz", "iid, seed 0"),
        ({"data_name": "wards", "data": "npz:/elsewhere/b.npz"}, "wards", "iid, seed 0"),
    ],
)
def test_a_name_contains_only_what_decides_the_records(changes, records, rule):
    entered = registration_of(DATA, dataclasses.replace(PART, **changes))
    assert entered.source == records
    assert entered.dataset == (f"{records}, part 1/3 ({rule})" if rule else records)
    assert entered.cut == (f"3 parts ({rule})" if rule else "")


def test_records_are_known_by_their_contents_and_are_as_many_as_was_declared():
    entered = registration_of(DATA, WHOLE)
    assert (entered.fingerprint, entered.unit) == (DATA.fingerprint(), "record")
    assert list(entered.digests()) == list(DATA.record_digests())
    assert entered.person_digests is None
    for declared in (30, 99):
        settings = dataclasses.replace(WHOLE, public_size=declared)
        assert registration_of(DATA, settings).public_size == declared


def test_more_than_are_declared_are_refused_with_the_way_out():
    with pytest.raises(DataError, match=r"public-size = 29: the data have 30 records.*Declare at least 30"):
        registration_of(DATA, dataclasses.replace(WHOLE, public_size=29))
    persons = PersonData(dataclasses.replace(DATA, groups=tuple(f"p{k // 3}" for k in range(30))), 2)
    settings = dataclasses.replace(WHOLE, unit="person:patient", records_per_person=2, public_size=10)
    assert registration_of(persons, settings).public_size == 10  # of 30 records
    with pytest.raises(DataError, match="public-size = 9: the data have 10 persons"):
        registration_of(persons, dataclasses.replace(settings, public_size=9))


@pytest.mark.parametrize(
    ("units", "declared"),
    [(1, 2), (7, 8), (8, 10), (30, 32), (100, 112), (479, 512), (511, 512), (512, 640), (50_000, 57_344)],
)
def test_auto_declares_a_round_number_above_the_true_one(units, declared):
    assert auto_size(units, WHOLE) == declared
    assert auto_size(units, RunConfig(data="npz:{client}.npz")) == declared  # as each of its clients will


def test_auto_is_the_same_for_nearly_all_neighbours_and_has_room_for_each():
    sizes = [auto_size(units, WHOLE) for units in range(1, 20_000)]
    assert all(units < size <= 1.25 * (units + 1) for units, size in enumerate(sizes, 1))
    assert len(set(sizes)) < 60


def test_cut_and_public_records_are_declared_exactly():
    digits = dataclasses.replace(WHOLE, data="digits")
    for settings in (PART, digits, RunConfig(data="npz:a.npz"), RunConfig(data="digits")):
        assert auto_size(30, settings) == 30
    split = dataclasses.replace(digits, test=0.2)  # by a secret hash: how many are left, nobody knows
    assert auto_size(30, split) == 32
    assert registration_of(DATA, PART).public_size == 30
    assert registration_of(DATA, WHOLE).public_size == 32


def test_persons_are_known_by_their_ids_and_so_are_groups_that_may_be_theirs():
    """New records, new ids or the other unit buy no second budget."""
    names = tuple(f"p{k // 3}" for k in range(30))
    records = dataclasses.replace(DATA, groups=names)
    persons = PersonData(records, 2)
    settings = dataclasses.replace(WHOLE, unit="person:patient", records_per_person=2)
    entered, by_record = registration_of(persons, settings), registration_of(records, WHOLE)
    assert (entered.unit, entered.public_size, by_record.unit) == ("person", 12, "record")
    assert list(entered.digests()) == list(persons.record_digests())
    assert set(entered.person_digests()) == set(by_record.person_digests()) == set(digests_of_names(names))


TASK = """
from fl_dp import Task

class Wards(Task):
    def train_data(self):
        return [[0.0]], [0]
"""


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "records of Wards"),
        ({"data": "csv:b.csv"}, "records of Wards in csv:b.csv"),
        ({"data": "csv:{client}.csv"}, "records of Wards in csv:north.csv"),
        ({"data": "csv:b.csv", "data_name": "ward 7"}, "ward 7"),
    ],
)
def test_files_that_one_task_reads_have_names_of_their_own(changes, name, tmp_path):
    (tmp_path / "wards.py").write_text(TASK)
    own = ClientConfig(client="north", ledger="unused", task=str(tmp_path / "wards.py"))
    assert dataset_name(dataclasses.replace(own, **changes)) == name


@pytest.mark.parametrize(
    ("data", "given", "name"),
    [
        ("digits", "", "digits"),
        ("csv:/home/anna/patients/all.csv", "", "csv"),
        ("csv:/home/anna/patients/{client}.csv", "", "csv"),
        ("csv:/home/anna/patients/{client}.csv", "ward 7", "ward 7"),
        ("npz:a.npz", "ward of {client}", "ward of north"),
    ],
)
def test_the_name_of_other_data_has_no_path(data, given, name):
    assert public_name(dataclasses.replace(WHOLE, data=data, data_name=given)) == name
