"""Memory is measured on random numbers, with the client that a run has. No record is touched."""

from dataclasses import replace
from pathlib import Path

import pytest

from fl_dp.config.run import RunConfig
from fl_dp.data.persons import PersonData
from fl_dp.federation.wire.arrays import shared_specs
from fl_dp.form import Form
from fl_dp.launch.forecast import Forecast, forecast_of
from fl_dp.launch.measuring import memory_of, random_data
from fl_dp.tasks.load import new_model, task_of

CONFIG = RunConfig(rounds=2, noise_multiplier=4.0, accountant="rdp", physical_batch_size="auto")


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def forecast(config: RunConfig, *sizes: int) -> Forecast:
    task = task_of(config)
    task.form = Form((64,), 10)
    return forecast_of(config, sizes, None, shared_specs(new_model(task), config.personal))


SUMS = {"clients": 4, "min_clients": 4, "fit_clients": 4, "aggregation": "secure"}


@pytest.mark.parametrize("change", [{}, {"privacy": "off"}, SUMS], ids=["private", "unprotected", "in sums"])
def test_a_step_of_a_client_is_measured_and_nothing_is_left(change, tmp_path, monkeypatch):
    monkeypatch.setattr("fl_dp.tasks.records.records_of", lambda *_: pytest.fail("records were read"))
    config = replace(CONFIG, **change)
    found = memory_of(forecast(config, *[640] * config.clients))
    assert found.step_bytes > 0
    assert 100 * 2**20 < found.resident_bytes < 2**40
    assert found.physical_batch_size >= 1
    assert list(tmp_path.iterdir()) == []


def test_a_larger_batch_takes_more():
    small, large = (
        memory_of(forecast(replace(CONFIG, expected_batch_size=size, physical_batch_size=size), 5000, 5000))
        for size in (8, 1024)
    )
    assert large.step_bytes > 2 * small.step_bytes


def test_nobody_who_can_train_is_nothing_to_measure():
    spent = forecast(replace(CONFIG, epsilon=1e-3, noise_multiplier="auto"), 64, 64)
    assert all(one.record.mechanism is None for one in spent.clients)
    assert memory_of(spent) is None


def test_random_examples_are_of_the_tasks_form_and_unit():
    persons = replace(CONFIG, unit="person:who", records_per_person=3)
    task = task_of(persons)
    task.form = Form((64,), 10)
    data = random_data(persons, task, 5)
    assert isinstance(data, PersonData)
    assert (len(data), len(data.records)) == (5, 15)
