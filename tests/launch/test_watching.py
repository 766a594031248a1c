"""What the console shows of a run of Flower's, with its processes and its Control API replaced."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fl_dp.config.run import RunConfig
from fl_dp.errors import LaunchError
from fl_dp.launch import watching
from fl_dp.launch.flower.control import FlowerRunStatus
from fl_dp.launch.flower.starting import SUPERLINK
from fl_dp.launch.watching import watch_run
from fl_dp.reporting.run_folder import RunFolder

GOES_ON, OVER = FlowerRunStatus(False, False, ""), FlowerRunStatus(True, True, "")
BUDGET = {
    "largest": 1.0,
    "median": 1.0,
    "least": 1.0,
    "accountants": ["pld"],
    "arithmetic": "assumed",
    "clients_per_person": 1,
    "rounds_ahead": 1,
    "running_out": [],
}


@dataclasses.dataclass
class Flower:
    """Its Control API and processes at once. statuses: one for each look; writes: lines at each look."""

    folder: RunFolder
    statuses: Iterator[FlowerRunStatus]
    writes: Iterator[int | None]
    codes: dict[str, list[int | None]]

    def status(self, run_id: int) -> FlowerRunStatus:
        assert run_id == 7
        if (server_round := next(self.writes)) is not None:
            with self.folder.rounds.open("a") as file:
                file.write(json.dumps(line(server_round)) + "\n")
        return next(self.statuses)

    def exit_code(self, name: str) -> int | None:
        left = self.codes.get(name, [None])
        return left.pop(0) if len(left) > 1 else left[0]


def line(server_round: int) -> dict[str, object]:
    return {
        "round": server_round, "private": True, "epsilon": 1.0, "delta": 1e-5, "clients": {}, "accuracy": 0.5,
        "federation": BUDGET, "loss": 1.0, "seconds": 2.0,
    }  # fmt: skip


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching.time, "sleep", lambda seconds: None)


def watch(flower: Flower, clients: tuple[str, ...], said: list[str]) -> FlowerRunStatus:
    return watch_run(7, RunConfig(rounds=2), flower.folder, flower, flower, clients, said.append)  # type: ignore[arg-type]


def test_each_round_is_a_line_and_the_last_one_is_shown_with_the_end(tmp_path: Path) -> None:
    flower = Flower(RunFolder(tmp_path), iter([GOES_ON, GOES_ON, OVER]), iter([None, 1, 2]), {})
    said: list[str] = []
    assert watch(flower, ("client 0",), said) == OVER
    assert [text.partition("  ")[0] for text in said] == ["round 1/2", "round 2/2"]
    assert "eps 1.00 of 3.00" in said[0]


def test_a_client_that_stops_is_said_once_and_the_run_goes_on(tmp_path: Path) -> None:
    statuses = iter([GOES_ON, GOES_ON, GOES_ON, OVER])
    flower = Flower(RunFolder(tmp_path), statuses, iter([None] * 4), {"client 1": [None, 5]})
    said: list[str] = []
    assert watch(flower, ("client 0", "client 1"), said) == OVER
    assert said == ["client 1 stopped (exit code 5); going on without it"]


def test_when_every_client_has_stopped_the_run_is_given_up(tmp_path: Path) -> None:
    codes: dict[str, list[int | None]] = {"client 0": [1], "client 1": [None, -9]}
    flower = Flower(RunFolder(tmp_path), iter([GOES_ON] * 9), iter([None] * 9), codes)
    said: list[str] = []
    with pytest.raises(LaunchError, match=rf"Every client has stopped. Logs: {tmp_path / 'logs'}"):
        watch(flower, ("client 0", "client 1"), said)
    assert said == [
        "client 0 stopped (exit code 1); going on without it",
        "client 1 stopped (signal 9); going on without it",
    ]


def test_a_superlink_that_stops_ends_the_run_with_its_log(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.logs.mkdir()
    folder.log(SUPERLINK).write_text("OSError: disk full\n")
    flower = Flower(folder, iter([GOES_ON] * 9), iter([None] * 9), {SUPERLINK: [None, 1]})
    with pytest.raises(LaunchError, match=r"superlink stopped \(exit code 1\)[\s\S]*disk full"):
        watch(flower, (), [])


def test_a_run_whose_clients_are_elsewhere_waits_for_its_end(tmp_path: Path) -> None:
    flower = Flower(RunFolder(tmp_path), iter([GOES_ON] * 5 + [OVER]), iter([None] * 6), {})
    assert watch(flower, (), []) == OVER
