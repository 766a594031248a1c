"""A server that was killed goes on from its folder alone, as Flower's processes do."""

import json
from functools import partial

import pytest
import torch
from federation.server import short_run
from federation.server.short_run import Killed, two

from fl_dp.errors import ConfigError
from fl_dp.federation.server import run as server_run
from fl_dp.federation.server import run_record
from fl_dp.federation.server.run import run_federation
from fl_dp.federation.server.run_record import RunRecord
from fl_dp.federation.server.state import STATE, RunState, read_state, write_state
from fl_dp.reporting.reports import INTERRUPTED
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.reporting.run_results import RunResults
from fl_dp.verify.check import Evidence, Outcome, checked

leave = server_run.leave


serve = partial(short_run.serve, rounds=4)


def lines(folder):
    found = [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "seconds"} for line in found]


@pytest.fixture
def killed_after(monkeypatch):
    """Have the server killed once in round N, when its state is on the disk and the line is not."""

    def kill(server_round):
        append, deaths, dead = RunResults.append_round, [server_round], []

        def die(self, line):
            if json.loads(line)["round"] in deaths:
                dead.append(deaths.pop())
                raise Killed
            append(self, line)

        monkeypatch.setattr(RunResults, "append_round", die)
        monkeypatch.setattr(server_run, "leave", lambda *end: dead.pop() if dead else leave(*end))

    return kill


def test_a_resumed_server_completes_the_run(tmp_path, fakes, killed_after):
    straight, grid = tmp_path / "straight", two(fakes)
    straight.mkdir()
    serve(straight, two(fakes))
    killed_after(2)
    with pytest.raises(Killed):
        serve(tmp_path, grid)
    assert [line["round"] for line in lines(tmp_path / "out")] == [1]
    serve(tmp_path, grid, run=78, resumed=True)
    assert lines(tmp_path / "out") == lines(straight / "out")
    one, other = (torch.load(at / "out/model.pt", weights_only=True) for at in (straight, tmp_path))
    assert all(torch.equal(one[name], other[name]) for name in one)
    summary = json.loads((tmp_path / "out/summary.json").read_text())
    assert (summary["status"], summary["rounds"]) == ("completed", 4)
    assert summary["clients"]["0"]["rounds"] == 4
    assert [plan.run for plan in grid.nodes[1].plans] == ["77", "77", "78", "78"]
    assert not (tmp_path / "out" / STATE).exists()


def test_a_server_killed_after_the_last_round_only_tidies_up(tmp_path, fakes, killed_after):
    grid = two(fakes)
    killed_after(4)
    with pytest.raises(Killed):
        serve(tmp_path, grid)
    asked = len(grid.sent)
    serve(tmp_path, grid, resumed=True)
    assert len(grid.sent) == asked
    summary = json.loads((tmp_path / "out/summary.json").read_text())
    assert (summary["status"], summary["rounds"], summary["accuracy"]) == (
        "completed",
        4,
        lines(tmp_path / "out")[-1]["accuracy"],
    )
    assert {client["status"] for client in summary["clients"].values()} == {"trained"}


def test_a_server_that_asked_nobody_begins_again_and_other_settings_lose_nothing(
    tmp_path, fakes, killed_after
):
    grid = two(fakes)
    (tmp_path / "out").mkdir()
    killed_after(2)
    with pytest.raises(Killed):
        serve(tmp_path, grid, resumed=True)
    with pytest.raises(ConfigError, match="fit-clients = 1: the run was started with 2"):
        serve(tmp_path, grid, resumed=True, **{"fit-clients": 1})
    serve(tmp_path, grid, resumed=True)
    assert len(lines(tmp_path / "out")) == 4


def test_a_resumed_run_has_taken_the_time_of_both_parts(tmp_path, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("fl_dp.federation.server.run_record.time.monotonic", lambda: now[0])
    record = RunRecord(RunResults(tmp_path), resumed=False)
    now[0] += 7.0
    assert record.seconds == 7.0
    state = RunState(run="r", settings={}, seconds=record.seconds, secret=b"s" * 32)
    write_state(tmp_path / STATE, state)
    now[0] = 50.0  # another process, another clock
    resumed = RunRecord(RunResults(tmp_path, resumed=True), resumed=True)
    now[0] += 2.0
    assert resumed.seconds == 9.0


def test_a_round_is_told_of_when_its_state_is_kept_and_before_anything_of_it_leaves(
    tmp_path, fakes, monkeypatch, killed_after
):
    """So that the bytes of its payments can be erased in between, also by the run that goes on."""
    folder, told = tmp_path / "out", []
    flat = {"rounds": 3, "noise-multiplier": 2.0, "round-timeout": 0.3, "device": "cpu", "accountant": "rdp"}

    def on_kept(server_round):
        there = (folder / "rounds.jsonl").exists()
        told.append((server_round, read_state(folder / STATE).rounds, len(lines(folder)) if there else 0))

    killed_after(3)
    with pytest.raises(Killed):
        run_federation(two(fakes), flat, "run", folder, on_kept=on_kept)
    assert told == [(1, 1, 0), (2, 2, 1), (3, 3, 2)]
    run_federation(two(fakes), flat, "run", folder, resumed=True, on_kept=on_kept)
    assert told[3:] == [(3, 3, 2)]
    assert len(lines(folder)) == 3


def test_the_model_that_is_left_is_that_of_the_state_and_no_later_one(tmp_path, fakes, monkeypatch):
    """A round whose state is not on the disk may be repeated: its model would be a second release."""
    keep = RunRecord.keep

    def full_disk(self, strategy):
        if strategy.reports and strategy.reports[-1].round == 2:
            raise OSError("no space left")
        keep(self, strategy)

    monkeypatch.setattr(RunRecord, "keep", full_disk)
    with pytest.raises(OSError, match="no space left"):
        serve(tmp_path, two(fakes))
    kept = read_state(tmp_path / "out" / STATE)
    assert kept.rounds == 1
    model = torch.load(tmp_path / "out/model.pt", weights_only=True)
    for name, array in kept.arrays.items():
        assert torch.equal(model[name], torch.tensor(array))


@pytest.mark.parametrize("server_round", [1, 3])
@pytest.mark.parametrize("written", ["the state", "the line"])
@pytest.mark.parametrize("after", [False, True])
def test_a_run_that_was_interrupted_while_it_kept_a_round_agrees_with_itself(
    tmp_path, fakes, monkeypatch, written, after, server_round
):
    """Just before or after either is written. The summary counted a round that had no line."""

    def interrupting(write, number_of):
        def interrupted(where, what):
            due = number_of(what) == server_round
            if after or not due:
                write(where, what)
            if due:
                raise KeyboardInterrupt

        return interrupted

    if written == "the state":
        monkeypatch.setattr(run_record, "write_state", interrupting(write_state, lambda state: state.rounds))
    else:
        of_line = interrupting(RunResults.append_round, lambda line: json.loads(line)["round"])
        monkeypatch.setattr(RunResults, "append_round", of_line)
    with pytest.raises(KeyboardInterrupt):
        serve(tmp_path, two(fakes), rounds=3)
    folder = RunFolder(tmp_path / "out")
    state, summary = read_state(folder.path / STATE), json.loads(folder.summary.read_text())
    assert state.rounds == server_round - (written == "the state" and not after)
    assert (summary["reason"], summary["rounds"]) == (INTERRUPTED, state.rounds)
    assert len(lines(folder.path) if folder.rounds.exists() else []) == state.rounds
    differing = [
        one
        for check in checked(Evidence(folder))
        for one in check.findings
        if one.outcome is Outcome.DIFFERS and check.name == "files"
    ]
    assert differing == []
