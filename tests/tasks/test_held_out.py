"""A site's own test records: each unit is on one side, and none moves another."""

from pathlib import Path

import numpy as np
import pytest
import torch

from fl_dp.config.client import ClientConfig
from fl_dp.config.data import DataSettings
from fl_dp.data.tensor_data import TensorData
from fl_dp.errors import ConfigError, DataError
from fl_dp.tasks.held_out import are_test, split_key
from fl_dp.tasks.records import load_held_out, load_part, load_undivided

KEY = b"k" * 32
RECORDS, PERSONS = DataSettings(test=0.3), DataSettings(test=0.3, unit="person:id", records_per_person=2)


def data(rows=200, seed=0, persons=0):
    x = torch.from_numpy(np.random.default_rng(seed).normal(size=(rows, 4)).astype(np.float32))
    groups = tuple(f"p{i % persons}" for i in range(rows)) if persons else ()
    return TensorData(
        x, torch.arange(rows) % 2, ("no", "yes"), groups=groups, grouped_by="id" if groups else ""
    )


def site(folder: Path, **settings):
    file = folder / "data.npz"
    if not file.exists():
        own = data(persons=40)
        np.savez(
            file,
            x_train=own.x,
            y_train=own.y,
            classes=["no", "yes"],
            groups_train=np.array(own.groups),
            x_test=own.x[:7] + 5,
            y_test=own.y[:7],
            groups_test=np.array([f"q{i}" for i in range(7)]),
        )
    return ClientConfig(client="a", ledger=str(folder / "l.sqlite"), data=f"npz:{file}", **settings)


@pytest.mark.parametrize("settings", [RECORDS, PERSONS], ids=["record", "person"])
def test_no_unit_moves_another(settings):
    whole = data(persons=40 if settings is PERSONS else 0)
    sides = are_test(whole, settings, KEY)
    assert 0.15 < sides.mean() < 0.45
    generator = np.random.default_rng(1)
    for _ in range(5):  # others come, go, and change their order
        rows = generator.permutation(200)[: generator.integers(1, 200)]
        assert (are_test(whole.subset(torch.from_numpy(rows)), settings, KEY) == sides[rows]).all()
    assert (are_test(whole, settings, b"another key" * 3) != sides).any()


def test_equal_records_and_all_records_of_a_person_are_on_one_side():
    whole = data(persons=40)
    sides = are_test(whole, PERSONS, KEY)
    assert all(len({sides[i] for i in range(200) if i % 40 == person}) == 1 for person in range(40))
    twice = whole.subset(torch.arange(200).repeat(2))
    assert (are_test(twice, RECORDS, KEY)[:200] == are_test(twice, RECORDS, KEY)[200:]).all()
    with pytest.raises(DataError, match="do not say whose records they are"):
        are_test(data(), PERSONS, KEY)


@pytest.mark.parametrize("unit", ["record", "person:id"])
def test_what_is_for_testing_is_never_loaded_for_training(tmp_path, unit):
    config = site(tmp_path, test=0.3, unit=unit, records_per_person=0 if unit == "record" else 5)
    part, whole = load_part(config), load_undivided(config)
    held_out = load_held_out(config, split_key(config))
    assert 0 < held_out.units < len(whole)
    assert held_out.units + len(part) == len(whole)
    assert not set(part.record_digests()) & set(held_out.records.record_digests())
    assert split_key(config) == split_key(config)  # it stays with the ledger


def test_of_a_person_the_first_records_count(tmp_path):
    config = site(tmp_path, test=0.3, unit="person:id", records_per_person=2)
    held_out = load_held_out(config, split_key(config))
    assert len(held_out.counted) == 2 * held_out.units
    assert len(held_out.records.records) == 5 * held_out.units


def test_a_sites_own_test_records_are_those_of_its_data(tmp_path):
    config = site(tmp_path, test="own")
    assert len(load_part(config)) == 200
    assert load_held_out(config, b"").units == 7
    config = site(tmp_path, test="own", num_partitions=2)
    with pytest.raises(ConfigError, match="all parts of a common data set have the same test records"):
        load_held_out(config, b"")


@pytest.mark.parametrize("test", [-0.1, 0.91, "others", True])
def test_only_a_share_or_own_is_known(tmp_path, test):
    with pytest.raises(ConfigError, match="test = "):
        site(tmp_path, test=test)
