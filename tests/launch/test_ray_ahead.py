"""Ray beside the checks; here it is a stand-in."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fl_dp.errors import ConfigError, FederationError
from fl_dp.launch.processes.processes import MARKER
from fl_dp.launch.ray_ahead import ray_ahead


@pytest.fixture(autouse=True)
def _nothing_stays_frozen() -> Iterator[None]:
    yield
    gc.unfreeze()


def stand_in(monkeypatch: pytest.MonkeyPatch, problem: str = "") -> list[str]:
    """What Ray does, as far as it gets."""
    seen: list[str] = []

    @contextmanager
    def running(address: str, scratch: Path, cpus: int) -> Iterator[None]:
        if problem:
            raise FederationError(problem)
        seen.append("there")
        yield
        seen.append("gone")

    monkeypatch.setattr("fl_dp.simulation.cluster.runtime.running", running)
    return seen


def test_ray_is_there_when_it_was_waited_for_and_goes(monkeypatch):
    seen = stand_in(monkeypatch)
    with ray_ahead("") as ray:
        ray.wait()
        assert seen == ["there"]
        assert MARKER in os.environ
    assert seen == ["there", "gone"]
    assert MARKER not in os.environ


def test_what_goes_wrong_is_raised_where_it_is_waited_for(monkeypatch):
    stand_in(monkeypatch, "no Ray")
    with pytest.raises(FederationError, match="no Ray"), ray_ahead("") as ray:
        ray.wait()


def test_garbage_is_collected_again_when_all_is_imported(monkeypatch):
    stand_in(monkeypatch)
    with ray_ahead("") as ray:
        assert not gc.isenabled()
        ray.wait()
        assert gc.isenabled()
        assert gc.get_freeze_count() > 0


def test_garbage_is_collected_again_after_a_refusal(monkeypatch):
    stand_in(monkeypatch)
    with pytest.raises(KeyError), ray_ahead(""):
        raise KeyError
    assert gc.isenabled()


def test_an_address_where_no_cluster_is_is_refused_before_anything_starts(monkeypatch):
    seen = stand_in(monkeypatch)
    with pytest.raises(ConfigError, match="no Ray cluster answers there"), ray_ahead("127.0.0.1:1"):
        raise AssertionError("it must not get here")
    assert not seen
