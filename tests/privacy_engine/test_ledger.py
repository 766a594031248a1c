"""A loop's data set is found in the ledger by the name, files and records by which a client's is."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import Subset, TensorDataset

from fl_dp import Ledger, TensorData
from fl_dp.accounting.ledger.files import lasting_ledger, ledger_file
from fl_dp.config.client import ClientConfig
from fl_dp.errors import ConfigError, DataError, LedgerError
from fl_dp.federation.client.round import ClientRounds
from fl_dp.privacy_engine.ledger import _declared
from fl_dp.records import Entry
from fl_dp.tasks.records import load_part

STEPS = Entry(0.1, 1.0, 2)
SCHEMA = 'split = "none"\n[columns.age]\nkind = "number"\nrange = [0, 99]\n[columns.bmi]\nkind = "number"\n'
SCHEMA += 'range = [0, 99]\n[columns.ill]\nkind = "label"\nclasses = {no = ["no"], yes = ["yes"]}\n'


@pytest.fixture
def ledger(tmp_path):
    with Ledger.open(str(tmp_path / "ledger.sqlite")) as ledger:
        yield ledger


def patients(folder, seed=0, count=60):
    draw = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": draw.integers(18, 91, count),
            "bmi": draw.normal(25, 4, count).round(2),
            "ill": draw.choice(["no", "yes"], count),
        }
    )
    path = folder / f"ehr{seed}.csv"
    frame.to_csv(path, index=False)
    path.with_suffix(".schema.toml").write_text(SCHEMA)
    return path


def client_of(ledger, data, **settings):
    """A client's data as its rounds enter them, and its budget."""
    config = ClientConfig(client="north", ledger=str(ledger.path), data=str(data), epsilon=3.0, **settings)
    (client,) = ClientRounds(ledger).register([(config, load_part(config))])
    return client


def client_pays(ledger, data, **settings):
    client = client_of(ledger, data, **settings)
    return ledger.reserve(client.dataset, "federation", 1, STEPS, client.budget)


def in_use(ledger):
    return [(one.dataset, [paid.run for paid in one.rounds]) for one in ledger.accounts()]


def test_without_a_path_it_is_the_ledger_of_this_machines_clients(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with Ledger.open() as ledger:
        assert ledger.path == ledger_file(lasting_ledger()) == tmp_path / "fl-dp" / "ledger" / "ledger.sqlite"
        assert isinstance(ledger, Ledger)


@pytest.mark.parametrize("loop_first", [True, False])
@pytest.mark.parametrize("name", ["ehr", ""])
def test_a_loop_and_a_client_on_one_file_pay_from_one_account(ledger, tmp_path, loop_first, name):
    path = patients(tmp_path)

    def loop_pays():
        account = ledger.account(name or f"csv:{path}", files=[path], size=60, epsilon=3.0, delta=1e-5)
        account.pay("job-7", STEPS)
        return account

    if loop_first:
        loop_pays()
    client_pays(ledger, f"csv:{path}", data_name=name)
    account = loop_pays()
    ((_, runs),) = in_use(ledger)
    assert sorted(runs) == ["federation", *["job-7"] * (1 + loop_first)]
    assert account.spent().taken == 2 * len(runs)


def test_a_file_that_differs_only_in_its_digest_is_another_for_two_loops(ledger, tmp_path):
    path = patients(tmp_path)
    ledger.account("ehr", files=[path], size=60, epsilon=3.0)
    path.write_text(path.read_text() + "1,2,no\n")
    with pytest.raises(LedgerError, match="in this ledger with different contents"):
        ledger.account("ehr", files=[path], size=61, epsilon=3.0)


@pytest.mark.parametrize("loop_first", [True, False])
def test_the_same_file_under_another_name_is_refused_whoever_comes_first(ledger, tmp_path, loop_first):
    path = patients(tmp_path)
    if loop_first:
        ledger.account("ehr", files=[path], size=60, epsilon=3.0)
        with pytest.raises(LedgerError, match="seems to share many records with ehr"):
            client_of(ledger, f"csv:{path}", data_name="fresh")
        return
    client_of(ledger, f"csv:{path}", data_name="ehr")
    with pytest.raises(LedgerError, match="seems to share many records with ehr"):
        ledger.account("fresh", files=[path], size=60, epsilon=3.0)


@pytest.mark.parametrize("settings", [{"test": 0.2}, {"num_partitions": 2, "partition_id": 0}])
def test_all_records_are_no_part_of_them(ledger, tmp_path, settings):
    path = patients(tmp_path)
    client = client_of(ledger, f"csv:{path}", data_name="ehr", **settings)
    with pytest.raises(LedgerError):
        ledger.account(client.dataset, files=[path], size=60, epsilon=3.0)


def test_other_files_under_a_clients_name_are_refused(ledger, tmp_path):
    client_of(ledger, f"csv:{patients(tmp_path)}", data_name="ehr")
    with pytest.raises(LedgerError, match="in this ledger with different contents"):
        ledger.account("ehr", files=[patients(tmp_path, seed=1)], size=60, epsilon=3.0)


@pytest.mark.parametrize("of_files", [True, False])
def test_arrays_are_known_by_their_file_and_by_their_records(ledger, tmp_path, of_files):
    x, y = torch.randn(50, 4), torch.randint(2, (50,))
    np.savez(tmp_path / "a.npz", x_train=x, y_train=y, classes=["no", "yes"])
    client = client_of(ledger, f"npz:{tmp_path / 'a.npz'}")
    how = {"files": [tmp_path / "a.npz"], "size": 50} if of_files else {"records": TensorDataset(x, y)}
    ledger.account(client.dataset, epsilon=3.0, **how).pay("job-7", STEPS)
    assert in_use(ledger) == [(client.dataset, ["job-7"])]
    with pytest.raises(LedgerError, match=r"this ledger has|share many"):
        ledger.account("fresh", epsilon=3.0, **how)


def test_parquet_and_other_files_are_read_as_their_sources_read_them(ledger, tmp_path):
    pd.read_csv(patients(tmp_path)).to_parquet(tmp_path / "a.parquet")
    (tmp_path / "a.schema.toml").write_text(SCHEMA)
    client = client_of(ledger, f"parquet:{tmp_path / 'a.parquet'}")
    ledger.account(client.dataset, files=[tmp_path / "a.parquet"], size=60, epsilon=3.0)
    torch.save(torch.zeros(20), tmp_path / "a.pt")
    ledger.account("tensors", files=[tmp_path / "a.pt"], size=20, epsilon=3.0)
    assert len(in_use(ledger)) == 2


def test_tensors_have_the_digests_of_a_federations_records():
    x, y = torch.randn(30, 4), torch.randint(2, (30,))
    declared = _declared("a", 30, TensorDataset(x, y), [])
    theirs = TensorData(x, y, ("no", "yes"))
    assert (declared.fingerprint, declared.digests()) == (theirs.fingerprint(), theirs.record_digests())
    part = _declared("a", 10, Subset(Subset(TensorDataset(x, y), range(5, 25)), range(10)), [])
    assert part.fingerprint == theirs.subset(torch.arange(5, 15)).fingerprint()


def test_many_of_the_same_records_under_another_name_are_refused(ledger):
    x, y = torch.randn(300, 4), torch.randint(2, (300,))
    ledger.account("ehr", records=TensorDataset(x, y), epsilon=3.0)
    with pytest.raises(LedgerError, match="seems to share many records with ehr"):
        ledger.account("fresh", records=TensorDataset(x[:250], y[:250]), epsilon=3.0)


def test_an_account_by_files_also_knows_its_tensors(ledger, tmp_path):
    records = TensorDataset(torch.randn(60, 4), torch.randint(2, (60,)))
    ledger.account("ehr", records=records, files=[patients(tmp_path)], epsilon=3.0)
    with pytest.raises(LedgerError, match="seems to share many records with ehr"):
        ledger.account("fresh", records=records, epsilon=3.0)


def test_rounds_go_on_after_those_of_a_retired_account(ledger, tmp_path):
    path = patients(tmp_path)
    for _ in range(2):
        account = ledger.account("ehr", files=[path], size=60, epsilon=3.0)
        account.pay("job", STEPS)
        ledger.retire("ehr")
    assert [one.server_round for held in ledger.accounts() for one in held.rounds] == [1, 2]


def test_what_is_left_counts_what_others_spend(ledger, tmp_path):
    path = patients(tmp_path)
    account = ledger.account("ehr", files=[path], size=60, epsilon=3.0, delta=1e-5)
    before = account.left(sample_rate=0.1, noise_multiplier=1.0).steps
    client_pays(ledger, f"csv:{path}", data_name="ehr")
    left = account.left(sample_rate=0.1, noise_multiplier=1.0)
    assert (left.steps, left.epsilon) == (before - 2, 3.0 - account.spent().epsilon)
    with pytest.raises(ConfigError, match="or neither"):
        account.left(sample_rate=0.1)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"size": 10}, "must know these data again"),
        ({"records": [1, 2]}, "must know these data again"),
        ({"files": [__file__]}, "give size="),
        ({"files": [__file__], "size": 0}, "size=0"),
        ({"records": TensorDataset(torch.zeros(3, 1), torch.zeros(3)), "size": 2}, "not below len"),
        ({"files": [__file__], "size": 3, "name": " "}, "expected a name"),
        ({"files": [__file__], "size": 3, "epsilon": 0.0}, "epsilon=0.0 > 0"),
    ],
)
def test_what_says_too_little_is_refused(ledger, given, words):
    with pytest.raises(ConfigError, match=words):
        ledger.account(**{"name": "ehr", "epsilon": 3.0, **given})
    assert in_use(ledger) == []


def test_a_file_that_is_missing_and_more_records_than_declared_are_refused(ledger, tmp_path):
    with pytest.raises(DataError, match=r"none\.csv: no file that can be read"):
        ledger.account("ehr", files=[tmp_path / "none.csv"], size=3, epsilon=3.0)
    ledger.account("ehr", files=[__file__], size=3, epsilon=3.0)
    with pytest.raises(ConfigError, match="holds 3 records as its declared number, and size=4"):
        ledger.account("ehr", files=[__file__], size=4, epsilon=3.0)
