"""Steps are measured on random numbers, with the client that a run has. No record is touched."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from fl_dp.config.run import RunConfig
from fl_dp.data.persons import PersonData
from fl_dp.federation.client.own_training import OwnTraining
from fl_dp.federation.wire.round_arrays import shared_specs
from fl_dp.form import Form
from fl_dp.launch import measuring
from fl_dp.launch.environment import cores
from fl_dp.launch.forecast import Forecast, Timing, forecast_of
from fl_dp.launch.measuring import random_data, timing_of
from fl_dp.tasks.load import new_model, task_of
from fl_dp.training.rows import expected_passes

CONFIG = RunConfig(rounds=2, noise_multiplier=4.0, accountant="rdp", physical_batch_size="auto")


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(measuring, "SECONDS", 0.05)
    monkeypatch.chdir(tmp_path)


def forecast(config: RunConfig, *sizes: int) -> Forecast:
    task = task_of(config)
    task.form = Form((64,), 10)
    return forecast_of(config, sizes, None, shared_specs(new_model(task), config.personal))


def test_the_steps_of_a_client_are_timed_and_nothing_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr("fl_dp.tasks.records.records_of", lambda *_: pytest.fail("records were read"))
    threads = torch.get_num_threads()
    found = timing_of(forecast(CONFIG, 640, 640), simulated=False, test_records=100)
    assert min(found.step, found.preparing, found.evaluating, found.step_bytes, found.around) > 0
    assert 100 * 2**20 < found.resident_bytes < 2**40
    assert found.slowness >= 1.0
    assert (found.at_once, found.threads) == (min(2, cores()), max(1, cores() // 2))
    assert 1 <= found.rows <= found.physical_batch_size
    assert torch.get_num_threads() == threads
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("privacy", ["on", "off"])
def test_of_a_long_step_a_part_is_measured_once(privacy, monkeypatch):
    monkeypatch.setattr(measuring, "SECONDS", 0.0)
    large = replace(CONFIG, expected_batch_size=1024, privacy=privacy, physical_batch_size=64)
    found = timing_of(forecast(large, 5000, 5000), simulated=True, test_records=0)
    assert (found.batch, found.measured) == (256, 1)
    passes = expected_passes(1024, found.rows) / expected_passes(256, found.rows)
    assert found.step / found.batch_seconds == pytest.approx(passes if privacy == "on" else 1024 / 256)

    monkeypatch.setattr(measuring, "random_data", None)  # what needs it measures again
    half = replace(large, expected_batch_size=512)
    again = timing_of(forecast(half, 5000, 5000), simulated=True, test_records=0, known=found)
    assert again.batch_seconds < again.step < found.step
    assert 0 < again.rounds < 2 * found.rounds
    with pytest.raises(TypeError):
        timing_of(forecast(CONFIG, 5000, 5000), simulated=True, test_records=0, known=found)


def test_of_a_short_step_all_is_measured(monkeypatch):
    monkeypatch.setattr(measuring, "SECONDS", 1e9)
    monkeypatch.setattr(measuring, "_MOST_STEPS", 5)
    config = replace(CONFIG, expected_batch_size=300)
    found = timing_of(forecast(config, 5000, 5000), simulated=True, test_records=0)
    assert (found.batch, found.step) == (300, found.batch_seconds)


def test_what_the_first_step_of_a_process_takes_is_no_steps_time(monkeypatch):
    """PyTorch's optimizers import for seconds in it; a plan would give up passes for that."""
    train, now, first = OwnTraining.train, 0.0, True

    def slow_at_first(self, paid):
        nonlocal now, first
        now, first = now + (9.0 if first else 0.125), False
        return train(self, paid)

    monkeypatch.setattr(OwnTraining, "train", slow_at_first)
    monkeypatch.setattr(
        measuring, "time", SimpleNamespace(perf_counter=lambda: now, thread_time=lambda: now / 3)
    )
    monkeypatch.setattr(measuring, "SECONDS", 0.5)
    found = timing_of(forecast(CONFIG, 640, 640), simulated=True, test_records=0)
    assert (found.step, found.measured) == (0.125 / 4, 4)
    assert found.slowness == pytest.approx(3.0)


def test_nobody_who_can_train_is_nothing_to_measure():
    spent = forecast(replace(CONFIG, epsilon=1e-3, noise_multiplier="auto"), 64, 64)
    assert all(one.record.mechanism is None for one in spent.clients)
    assert timing_of(spent, simulated=True, test_records=0) is None


def test_all_rounds_are_no_shorter_than_the_work_on_all_cores(monkeypatch):
    monkeypatch.setattr(measuring, "cores", lambda: 2)
    monkeypatch.setattr(measuring, "_SERVING", 0.0)
    monkeypatch.setattr(measuring, "_ANSWERING", 0.25)
    one = Timing(1.0, 0.5, 9, 64, 0.5, 3.0, 2, 1, 64, 64, 0, 0, reading=0.25, slowness=2.0)
    two = forecast(CONFIG, 640, 640)  # 10 steps of half a second a round, after 1 s
    assert measuring._all_rounds(two, one, simulated=False) == 2 * (6 + 0.25 + 2 * 0.25) + 2 * 3
    assert measuring._all_rounds(two, one, simulated=True) == 2 * 5 + 2 * 3
    four = replace(CONFIG, clients=4, min_clients=4, fit_clients=4, evaluate_every=0)
    assert measuring._all_rounds(forecast(four, 640, 640, 640, 640), one, simulated=True) == 2 * 10 + 3
    unlike = forecast(replace(CONFIG, evaluate_every=5), 6400, 64)
    assert measuring._all_rounds(unlike, one, simulated=True) == 2 * 50 + 3
    sums = forecast(replace(four, aggregation="secure", evaluate_every=1), 640, 640, 640, 640)
    alike = 1.0 + 0.25 + measuring._SUMMING * 2 * 0.25 + 0.5  # a step a round
    assert measuring._all_rounds(sums, one, simulated=False) == 2 * 2 * alike + 2 * 3
    monkeypatch.setattr(measuring, "_SERVING", 0.5)
    assert measuring._all_rounds(two, one, simulated=True) == 2 * 5 + 2 * (3 + 2 * 0.5)


def test_a_busy_machine_and_slow_data_make_start_and_end_longer(monkeypatch):
    monkeypatch.setattr(measuring, "cores", lambda: 2)
    idle = measuring._around(CONFIG, 0.0, 1.0, simulated=False)
    assert measuring._around(CONFIG, 0.0, 3.0, simulated=False) == pytest.approx(3 * idle)
    assert measuring._around(CONFIG, 7.0, 1.0, simulated=False) == idle + 2 * 7.0
    assert measuring._around(replace(CONFIG, clients=6), 7.0, 1.0, simulated=False) > idle + 4 * 7.0
    assert measuring._around(CONFIG, 7.0, 2.0, simulated=True) > 2 * 7.0


def test_random_examples_are_of_the_tasks_form_and_unit():
    persons = replace(CONFIG, unit="person:who", records_per_person=3)
    task = task_of(persons)
    task.form = Form((64,), 10)
    data = random_data(persons, task, 5)
    assert isinstance(data, PersonData)
    assert (len(data), len(data.records)) == (5, 15)
