"""The name of a client's data in its ledger says all that decides which records they are."""

import dataclasses

import pytest
import torch

from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.config.client import ClientConfig
from fl_dp.data.persons import PersonData
from fl_dp.data.tensor_data import TensorData
from fl_dp.errors import LedgerError
from fl_dp.federation.client.registration import dataset_name, public_name, registration_of

WHOLE = ClientConfig(client="north", ledger="unused", data="npz:a.npz")
PART = dataclasses.replace(WHOLE, partition_id=1, num_partitions=3)


def data(n=30, seed=0):
    x = torch.randn(n, 4, generator=torch.Generator().manual_seed(seed))
    return TensorData(x, torch.zeros(n, dtype=torch.int64), ("a",))


@pytest.fixture
def ledger(tmp_path):
    with Ledger.open(tmp_path / "ledger.sqlite") as ledger:
        yield ledger


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"num_partitions": 1, "partition_id": 0}, "npz:a.npz"),
        ({}, "npz:a.npz, part 1/3 (iid, seed 0)"),
        ({"seed": 7}, "npz:a.npz, part 1/3 (iid, seed 7)"),
        ({"partition": "dirichlet"}, "npz:a.npz, part 1/3 (dirichlet 0.5, seed 0)"),
        ({"partition": "pathological"}, "npz:a.npz, part 1/3 (pathological 2, seed 0)"),
        ({"partition": "sizes", "partition_sizes": "9, 8,7"}, "npz:a.npz, part 1/3 (sizes 9,8,7, seed 0)"),
        (
            {"unit": "person:a", "records_per_person": 2},
            "npz:a.npz, part 1/3 (iid, seed 0, of persons)",
        ),
        ({"client": "south", "epsilon": 1.0, "device": "cpu"}, "npz:a.npz, part 1/3 (iid, seed 0)"),
    ],
)
def test_a_name_says_what_decides_the_records_and_nothing_else(changes, name):
    assert dataset_name(dataclasses.replace(PART, **changes)) == name


def test_persons_are_entered_as_such_and_keep_to_it(ledger):
    """A patient's new records, or new ids for the records, buy no second budget; nor does the other unit."""
    records = dataclasses.replace(data(), groups=tuple(f"p{k // 3}" for k in range(30)))
    settings = dataclasses.replace(WHOLE, unit="person:patient", records_per_person=2)
    assert ledger.register_all([registration_of(PersonData(records, 2), settings)]) == [10]
    assert ledger.accounts()[0].identity.unit == "person"
    elsewhere = dataclasses.replace(settings, data="npz:b.npz")
    new_records = dataclasses.replace(data(seed=1), groups=records.groups)
    new_ids = dataclasses.replace(records, groups=tuple(f"q{k // 3}" for k in range(30)))
    for other in (new_records, new_ids):
        with pytest.raises(LedgerError, match=r"npz:b\.npz seems to share many persons with npz:a\.npz"):
            ledger.register_all([registration_of(PersonData(other, 2), elsewhere)])
    for name in ("npz:a.npz", "npz:c.npz"):
        with pytest.raises(LedgerError, match=r"npz:a\.npz has spent by the person; "):
            ledger.register_all([registration_of(records, dataclasses.replace(WHOLE, data=name))])
    ledger.register_all([registration_of(PersonData(records, 2), settings)])  # again: nothing new


def test_another_cut_of_the_same_data_is_refused(ledger):
    ledger.register_all([registration_of(data(), PART)])
    other = data(seed=1)
    for changes in ({"num_partitions": 4}, {"seed": 1}, {"partition": "dirichlet"}, {"num_partitions": 1}):
        cut = dataclasses.replace(PART, **{"partition_id": 0, **changes})
        with pytest.raises(LedgerError, match="would share records with it"):
            ledger.register_all([registration_of(other, cut)])
    of_the_same_cut = dataclasses.replace(PART, partition_id=2)
    ledger.register_all([registration_of(other, of_the_same_cut)])


NAMED = dataclasses.replace(WHOLE, data_name="wards")


def test_a_moved_file_keeps_its_name_which_buys_no_second_budget(ledger):
    assert dataset_name(NAMED) == "wards"
    assert dataset_name(dataclasses.replace(PART, data_name="wards")) == "wards, part 1/3 (iid, seed 0)"
    ledger.register_all([registration_of(data(), NAMED)])
    moved = dataclasses.replace(NAMED, data="npz:/elsewhere/b.npz")
    ledger.register_all([registration_of(data(), moved)])
    assert [account.dataset for account in ledger.accounts()] == ["wards"]
    for records, name, words in (
        (data(), "", "entered as wards, not .*; use that name"),
        (data(), "patients", "entered as wards, not .*; use that name"),
        (data().subset(torch.randperm(30)[:20]), "patients", "seems to share many records with wards"),
        (data(seed=1), "wards", "wards is entered with other contents"),
    ):
        with pytest.raises(LedgerError, match=words):
            ledger.register_all([registration_of(records, dataclasses.replace(NAMED, data_name=name))])


def test_the_public_size_is_declared_once(ledger):
    assert ledger.register_all([registration_of(data(), WHOLE)]) == [30]
    again = registration_of(data(), dataclasses.replace(WHOLE, public_size=99))
    assert ledger.register_all([again]) == [30]
    declared = dataclasses.replace(WHOLE, public_size=99, data="npz:b.npz")
    assert ledger.register_all([registration_of(data(seed=1), declared)]) == [99]


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
def test_elsewhere_data_have_no_path(data, given, name):
    assert public_name(dataclasses.replace(WHOLE, data=data, data_name=given)) == name
