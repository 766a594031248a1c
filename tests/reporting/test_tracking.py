"""Trackers beside a run: refused where they are missing, told every round once, and no run ends with them."""

import json
import math
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from run_records import client, record

from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.reporting import tracking as module
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.reporting.run_results import append_line
from fl_dp.reporting.tracking import KEPT, Tracker, check_trackers, numbers_of, told_settings, tracking


class Notes:
    """A tracker in memory. fails_at: the round that it cannot write."""

    def __init__(self, fails_at: int = 0, fails_to_open: bool = False) -> None:
        self.rounds: list[int] = []
        self.opened = 0
        self.closed = 0
        self._fails_at, self._fails_to_open = fails_at, fails_to_open

    def open(self, folder: Path, settings: Mapping[str, Any]) -> "Notes":
        if self._fails_to_open:
            raise OSError("no space\x1b[2J")
        assert folder.is_dir()
        self.opened += 1
        return self

    def log(self, server_round: int, numbers: Mapping[str, float]) -> None:
        if server_round == self._fails_at:
            raise RuntimeError("the disk is full")
        self.rounds.append(server_round)

    def close(self) -> None:
        self.closed += 1


class Run:
    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.said: list[str] = []
        self.trackers = {"one": Notes(), "other": Notes()}

    def go(self, *rounds: int, untold: int = 0) -> None:
        """Rounds that are written and told, and then some that are written alone."""
        config: Any = SimpleNamespace(track_names=tuple(self.trackers), to_flat=RunConfig().to_flat)
        with tracking(config, self.folder, self.said.append) as tracked:
            for number in rounds:
                append_line(self.folder.rounds, record(number).to_dict())
                tracked.round_over(record(number))
        for number in range(max(rounds, default=0) + 1, max(rounds, default=0) + 1 + untold):
            append_line(self.folder.rounds, record(number).to_dict())


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    run = Run(RunFolder(tmp_path))

    class Choices:
        @staticmethod
        def load(name: str, kind: type) -> Tracker:
            return Tracker(name, run.trackers[name].open)

    monkeypatch.setattr(module, "TRACKERS", Choices)
    return run


def test_all_trackers_are_told_all_rounds_and_how_it_ended(run: Run) -> None:
    run.go(1, 2, 3)
    for one in run.trackers.values():
        assert (one.rounds, one.opened, one.closed) == ([1, 2, 3], 1, 1)
    assert [line.split(" in ")[0] for line in run.said] == ["tracked by one", "tracked by other"]


def test_a_run_that_goes_on_keeps_its_steps_and_tells_what_nobody_was_told(run: Run) -> None:
    run.go(1, 2, untold=2)  # killed between a line and its telling
    run.go(5, 6)
    for one in run.trackers.values():
        assert one.rounds == [1, 2, 3, 4, 5, 6]
        assert one.opened == 2


def test_a_run_that_goes_on_without_rounds_tells_the_last_ones(run: Run) -> None:
    run.go(1, untold=1)
    run.go()
    assert run.trackers["other"].rounds == [1, 2]


def test_a_tracker_that_fails_ends_no_run_and_is_not_silent(run: Run) -> None:
    run.trackers["one"] = Notes(fails_at=2)
    run.go(1, 2, 3)
    assert run.trackers["one"].rounds == [1]
    assert run.trackers["other"].rounds == [1, 2, 3]
    why = "RuntimeError: the disk is full"
    assert run.said[0] == f"the tracker one failed, and the run goes on without it: {why}"
    assert run.said[1] == f"tracking is incomplete: one failed after round 1: {why}"
    assert json.loads((run.folder.tracked / KEPT).read_text())["one"] == 1


def test_one_that_cannot_even_begin_is_said_too(run: Run) -> None:
    run.trackers["other"] = Notes(fails_to_open=True)
    run.go(1)
    assert run.said[0].endswith("goes on without it: OSError: no space\\u001b[2J")
    assert run.trackers["one"].rounds == [1]


def test_without_trackers_nothing_is_written(run: Run) -> None:
    run.trackers = {}
    run.go(1)
    assert not run.folder.tracked.exists()


@pytest.mark.parametrize(
    "text", ["[]", "{", *(f'{{"one": {one}}}' for one in ("-1", 2**60, "true", '"1"', "{}"))]
)
def test_what_was_kept_may_be_damaged(run: Run, text: str) -> None:
    run.go(1)
    (run.folder.tracked / KEPT).write_text(text)
    with pytest.raises(ConfigError, match="damaged"):
        run.go(2)
    assert run.trackers["one"].opened == 1


@pytest.mark.parametrize("place", ["tracked", "tracked/one"])
def test_what_trackers_write_stays_in_the_runs_folder(run: Run, place: str, tmp_path: Path) -> None:
    away = tmp_path / "away"
    away.mkdir()
    link = run.folder.path / place
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(away)
    with pytest.raises(ConfigError, match="is a link; delete it"):
        run.go(1)
    assert list(away.iterdir()) == []


def test_a_tracker_that_is_not_installed_is_refused_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    words = r"package tensorboard, .*: pip install tensorboard, or the extra track of"
    with pytest.raises(ConfigError, match=words):
        check_trackers(["tensorboard"])


def test_an_unknown_tracker_is_refused_by_the_settings() -> None:
    with pytest.raises(ConfigError, match=r"track = 'tensorbored': expected .*tensorboard"):
        RunConfig(track="tensorboard, tensorbored")
    assert RunConfig(track="tensorboard, tensorboard").track_names == ("tensorboard",)
    assert RunConfig().track_names == ()


def test_no_plan_and_no_client_hears_of_it(tmp_path: Path) -> None:
    from fl_dp.federation.client.registration import task_identity
    from fl_dp.federation.server.planning import round_mechanism, round_plan
    from fl_dp.launch.clients import client_config
    from fl_dp.records import ClientProfile

    plain = RunConfig()
    tracked = replace(plain, track="tensorboard")
    profile = ClientProfile("a", 500, 3.0, 1e-5, (), "pld")
    mechanism = round_mechanism(profile, plain)
    assert round_mechanism(profile, tracked) == mechanism
    plans = [round_plan(profile, mechanism, one, "run", 1, task_identity(one)) for one in (plain, tracked)]
    assert plans[0] == plans[1]
    assert client_config(plain, 0, tmp_path) == client_config(tracked, 0, tmp_path)


def test_the_numbers_of_a_round() -> None:
    found = numbers_of(record(3))
    assert found == {
        "privacy/epsilon": 2.0,
        "privacy/delta": 1e-5,
        "privacy/epsilon-largest": 2.0,
        "privacy/epsilon-median": 1.5,
        "privacy/epsilon-least": 1.0,
        "privacy/noise-multiplier": 1.1,
        "model/loss": 0.5,
        "model/accuracy": 0.9,
        "clients/trained": 2,
        "clients/declined": 0,
        "clients/failed": 0,
        "clients/idle": 0,
        "round/seconds": 4.0,
        "round/lost": 0.0,
    }


def test_what_was_not_measured_or_is_not_finite_is_left_out_and_so_is_an_epsilon_without_privacy() -> None:
    found = numbers_of(record(loss=None, accuracy=math.nan, epsilon=math.inf, metrics={"f1": None}))
    assert not found.keys() & {"model/loss", "model/accuracy", "model/f1", "privacy/epsilon"}
    found = numbers_of(record(private=False, epsilon=5.0))
    assert not [name for name in found if name.startswith(("privacy/epsilon", "privacy/delta"))]


def test_statuses_are_counted_and_a_lost_round_is_marked() -> None:
    clients = {one: client(status=one) for one in ("idle", "failed", "declined")}
    found = numbers_of(record(clients=clients, lost="too few"))
    assert [found[f"clients/{name}"] for name in ("trained", "declined", "failed", "idle")] == [0, 1, 1, 1]
    assert found["round/lost"] == 1.0


def test_a_metrics_name_is_one_that_trackers_and_files_take() -> None:
    assert "model/a-b--c" in numbers_of(record(metrics={"a/b:\x1bc": 1.0}))
    found = numbers_of(record(metrics={"..": 1.0, "": 2.0, "x" * 999 + "a": 3.0, "x" * 999 + "b": 4.0}))
    assert found["model/-."] == 1.0
    assert found["model/-"] == 2.0
    assert sorted(value for name, value in found.items() if "xxx" in name) == [3.0, 4.0]
    assert max(map(len, found)) < 140


def test_settings_are_told_without_paths_and_names_of_data() -> None:
    config = RunConfig(
        data="csv:/home/someone/patients.csv",
        data_name="north",
        data_root="/secret",
        out="/secret/run",
        schema="/secret/s.toml",
        task="/secret/t.py",
        model="/secret/m.py:Net",
        start="/secret/w.pt",
        track="tensorboard",
    )
    told = told_settings(config.to_flat())
    assert told["data"] == "csv"
    assert told["epsilon"] == 3.0
    assert told["noise-multiplier"] == "auto"
    assert "model" not in told
    assert not any("secret" in str(one) or "someone" in str(one) or one == "north" for one in told.values())
    assert told_settings(RunConfig(model="hf:/secret/bert").to_flat())["model"] == "hf"


def test_metrics_whose_names_become_one_are_both_kept_under_names_that_stay() -> None:
    """Whatever is measured of the other in a round."""
    found = numbers_of(record(metrics={"f[a=b]": 1.0, "f[a:b]": 2.0, "f[c]": 3.0}))
    named = {name: value for name, value in found.items() if name.startswith("model/f")}
    assert sorted(named.values()) == [1.0, 2.0, 3.0]
    assert named["model/f-c-"] == 3.0
    later = numbers_of(record(metrics={"f[a=b]": 5.0, "f[a:b]": None, "f[c]": 3.0}))
    assert named.keys() & later.keys() == {"model/f-c-", next(name for name in named if named[name] == 1.0)}
