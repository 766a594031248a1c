"""What a run keeps of its first measurement, so that a round that is begun again rounds as it did."""

import dataclasses
import json
import stat
from typing import Any

import pytest

from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.form import Form
from fl_dp.records import RoundPlan
from fl_dp.simulation import session
from fl_dp.simulation.cluster.resources import Share
from fl_dp.simulation.session import KeptActors, Node, _kept, kept_secret, nodes, run_name
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


class Pool:
    """In the place of an ActorPool; notes what it is called for."""

    def __init__(self, *_: Any) -> None:
        self.calls: list[Any] = []
        self.ran_short = False

    def start(self) -> None:
        self.calls.append("start")

    def call_first(self, call: Any) -> None:
        self.calls.append("use")

    def measure(self, plan: RoundPlan) -> Measured:
        self.calls.append(plan)
        return FIRST

    def close(self) -> None:
        self.calls.append("close")


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> KeptActors:
    """Actors of a machine of four cores, without Ray."""
    monkeypatch.setattr(session, "ActorPool", Pool)
    monkeypatch.setattr(session, "nodes", lambda: [Node(4.0, 0.0, 2**33)])
    monkeypatch.setattr(session.ray, "put", lambda value: value)
    monkeypatch.setattr(session.ray, "get", lambda value: value)
    return KeptActors()


FORM = Form((4,), 2)
CONFIG = RunConfig()


class Remote:
    """In the place of `ray.remote(TrainingActor)`."""

    def options(self, **options: Any) -> "Remote":
        self.given = options
        return self

    def remote(self, *args: Any) -> tuple[Any, ...]:
        return args


def test_an_actor_gets_its_share_and_is_not_restarted(kept, federation, monkeypatch):
    remote = Remote()
    monkeypatch.setattr(session.ray, "remote", lambda kind: remote)
    actors = kept.for_run(CONFIG, federation.shared, FORM)
    stored, settings = actors.start_actor()
    assert (stored, settings.device) == (actors.stored, "cpu")
    fixed = {"max_restarts": 0, "max_task_retries": 0}
    assert remote.given == {**fixed, "num_cpus": 1.0, "num_gpus": 0}
    actors.share = Share(0.5, 0.25)
    actors.start_actor()
    assert remote.given == {**fixed, "num_cpus": 0.5, "num_gpus": 0.25}


def test_a_run_that_needs_the_same_has_the_actors_and_the_data_of_the_last_one(kept, federation):
    first = kept.for_run(CONFIG, federation.shared, FORM)
    again = dataclasses.replace(CONFIG, epsilon=1.0, rounds=7, learning_rate=0.1, out="elsewhere")
    assert kept.for_run(again, federation.shared, FORM) is first
    assert first.pool.calls == ["start"]  # nothing was sent
    other = dataclasses.replace(federation.shared, y=federation.shared.y[::-1].copy())
    assert kept.for_run(CONFIG, other, FORM) is first
    assert first.pool.calls == ["start", "use"]
    assert first.stored.holds_the_same(other)  # for actors that start from now on
    assert first.shared.holds_the_same(other)


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"model": "tanh-cnn"},
        {"loss": "bce"},
        {"personal": "*.bias", "evaluate": "off"},
        {"physical_batch_size": 8},
        {"memory_mib": 64},
        {"clients_per_cpu": 2.0},
        {"clients_per_gpu": 2.0},
        {"round_timeout": 60.0},
        {"form": Form((4,), 3)},
        {"code": "other"},
        {"short": True},
    ],
    ids=str,
)
def test_whatever_differs_has_actors_of_its_own(kept, federation, monkeypatch, change):
    change = dict(change)
    form, code, short = change.pop("form", FORM), change.pop("code", ""), change.pop("short", False)
    first = kept.for_run(CONFIG, federation.shared, FORM)
    first.pool.ran_short = short
    monkeypatch.setattr(session, "code_identity", lambda task: code)
    second = kept.for_run(dataclasses.replace(CONFIG, **change), federation.shared, form)
    assert second is not first
    assert first.pool.calls == ["start", "close"]
    assert second.pool.calls == ["start"]


PLAN = RoundPlan("run", 1, "linear", 2, 8, 0.5, 0.0, 1.0, 1.0)


def test_a_measurement_counts_for_plans_of_the_same_passes_and_no_others(kept, federation):
    actors = kept.for_run(CONFIG, federation.shared, FORM)
    same = {"run": "b", "server_round": 9, "steps": 5, "learning_rate": 0.1, "noise_multiplier": 7.0}
    other = {"private": False, "expected_batch_size": 9, "momentum": 0.9, "max_grad_norm": 2.0}
    other |= {"arithmetic": "proven", "optimizer": "adam", "clipping": "normalised", "shares": 2}
    other |= {"local_algorithm": "fedprox", "pull": 1.0, "noise_multiplier": 0.0, "unit": "person"}
    actors.measure(PLAN)
    for name, value in same.items():
        actors.measure(dataclasses.replace(PLAN, **{name: value}))
    assert len(actors.pool.calls) == 2
    for name, value in other.items():
        actors.measure(dataclasses.replace(PLAN, **{name: value}))
    assert len(actors.pool.calls) == 2 + len(other)
