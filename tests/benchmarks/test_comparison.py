"""With a fake in place of each process: what is started, and what comes of an engine that ends."""

from contextlib import contextmanager

import pytest

from benchmarks import comparison
from benchmarks.comparison import compare, rows_of
from benchmarks.measure import Cost, Setting
from benchmarks.processes import Ended

STEP = {"sgd": 0.001, "double": 0.002}


class Fake:
    def __init__(self, engine):
        self.engine = engine

    def first_step(self):
        if self.engine == "broken":
            raise Ended("refused", "batch norm")
        return Cost(0.01, 8192)

    def turn(self):
        if self.engine == "weak":
            raise Ended("killed", "signal 9")
        return Cost(STEP[self.engine], 8192)


@pytest.fixture
def started(monkeypatch):
    engines = []

    @contextmanager
    def fake(setting, limit):
        engines.append(setting.engine)
        yield Fake(setting.engine)

    monkeypatch.setattr(comparison, "remote", fake)
    return engines


def compared(*engines, seconds=0.03):
    settings = [Setting("m", engine, 8) for engine in engines]
    return {row.engine: row for row in rows_of("m", 8, compare(settings, 3, seconds, 1.0, lambda line: None))}


def test_each_repeat_is_a_process_of_each_engine_but_of_one_that_starts_slowly(started):
    rows = compared("sgd", "double")
    assert started == ["sgd", "double"] * 3
    assert rows["double"].numbers.processes == rows["sgd"].numbers.processes == 3
    assert (rows["sgd"].numbers.step_ratio, rows["double"].numbers.step_ratio) == (1.0, 2.0)
    compared("sgd", "double", seconds=0.0)
    assert started.count("double") == 3 + 1


@pytest.mark.parametrize(("engine", "status"), [("broken", "refused"), ("weak", "killed")])
def test_an_engine_that_ends_is_not_asked_again_and_the_others_stay(started, engine, status):
    rows = compared("sgd", engine, "double")
    assert started.count(engine) == 1
    assert rows[engine].status == status
    assert rows["double"].numbers.processes == 3


def test_plain_sgd_is_measured_alone_and_without_it_no_engine_has_numbers(started):
    assert compared("sgd", "broken")["sgd"].numbers.step_seconds == STEP["sgd"]
    assert {row.status for row in compared("broken", "double").values()} == {"refused"}
