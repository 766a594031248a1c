"""What a run keeps of its first measurement, so that a round that is begun again rounds as it did."""

import dataclasses
import json
import stat
from typing import Any

import pytest

from fl_dp.errors import ConfigError
from fl_dp.simulation import session
from fl_dp.simulation.cluster.resources import Share
from fl_dp.simulation.session import ActorStarter, Node, _kept, kept_secret, nodes, run_name
from fl_dp.simulation.work import Measured

FIRST = Measured({"w": "ghost"}, at_once=32, step_bytes=1, process_bytes=1, most=256)


@pytest.mark.parametrize("rows", [8, 24, 64])
def test_kernels_and_rows_stay_those_of_the_first_measurement(tmp_path, rows):
    """Which rows are the fastest differs from measurement to measurement."""
    assert _kept(tmp_path / "shapes.json", "linear", FIRST) == FIRST
    again = dataclasses.replace(FIRST, kernels={"w": "instantiate"}, at_once=rows, step_bytes=9)
    found = _kept(tmp_path / "shapes.json", "linear", again)
    assert (found.kernels, found.at_once) == ({"w": "ghost"}, 32)
    assert found.step_bytes == 9
    less = _kept(tmp_path / "shapes.json", "linear", dataclasses.replace(again, most=16))
    assert less.at_once == 16  # where there is less memory now there are fewer rows


def test_a_model_that_is_new_to_the_run_is_as_measured(tmp_path):
    _kept(tmp_path / "shapes.json", "linear", FIRST)
    other = dataclasses.replace(FIRST, at_once=16)
    assert _kept(tmp_path / "shapes.json", "tanh-cnn", other) == other
    assert set(json.loads((tmp_path / "shapes.json").read_text())) == {"linear"}


def test_nodes_are_the_machines_that_are_alive(monkeypatch):
    found = [
        {"Alive": True, "Resources": {"CPU": 4.0, "GPU": 2.0, "memory": 1024.0, "node:10.0.0.1": 1.0}},
        {"Alive": False, "Resources": {"CPU": 8.0}},
        {"Alive": True, "Resources": {"CPU": 2.0}},
    ]
    monkeypatch.setattr(session.ray, "nodes", lambda: found)
    assert nodes() == [Node(4.0, 2.0, 1024), Node(2.0, 0.0, 0)]


class Remote:
    """In the place of `ray.remote(TrainingActor)`."""

    def options(self, **options: Any) -> "Remote":
        self.given = options
        return self

    def remote(self, *args: Any) -> tuple[Any, ...]:
        return args


def test_an_actor_gets_its_share_and_is_not_restarted(monkeypatch):
    remote = Remote()
    monkeypatch.setattr(session.ray, "remote", lambda kind: remote)
    settings: Any = object()
    start = ActorStarter("data", settings, Share(0.5, 0))
    assert start() == ("data", settings)
    fixed = {"max_restarts": 0, "max_task_retries": 0}
    assert remote.given == {**fixed, "num_cpus": 0.5, "num_gpus": 0}
    start.share = Share(0.5, 0.25)
    start()
    assert remote.given == {**fixed, "num_cpus": 0.5, "num_gpus": 0.25}


def test_the_secret_is_made_once_and_its_owner_alone_can_read_it(tmp_path):
    path = tmp_path / "clients" / "secret"
    secret = kept_secret(path)
    assert len(secret) == 32
    assert kept_secret(path) == secret
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert kept_secret(tmp_path / "another") != secret


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 33])
def test_a_damaged_secret_is_refused(tmp_path, content):
    (tmp_path / "secret").write_bytes(content)
    with pytest.raises(ConfigError, match="secret: is damaged"):
        kept_secret(tmp_path / "secret")


def test_other_randomness_is_another_run():
    """A round of one name is paid for once: the name must tell all that decides its result."""
    name = run_name(b"a" * 32, "cpu")
    assert name == run_name(b"a" * 32, "cpu")
    assert len({name, run_name(b"b" * 32, "cpu"), run_name(b"a" * 32, "cuda")}) == 3
