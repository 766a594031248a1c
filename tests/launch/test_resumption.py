"""What can be resumed, and what is refused with a word; nothing is started here."""

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from run_records import record, summary

from fl_dp.config.run import RunConfig
from fl_dp.durable_files import exclusive
from fl_dp.errors import ConfigError
from fl_dp.federation.server.state import STATE, RunState, write_state
from fl_dp.launch import launcher
from fl_dp.launch.progress_reporter import ProgressReporter
from fl_dp.launch.resumption import Launch, kept_config
from fl_dp.records import NUMERICS
from fl_dp.reporting.run_folder import RunFolder


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """A folder as a killed simulation leaves it, after round 2."""
    folder = RunFolder(tmp_path / "out")
    folder.path.mkdir()
    config = launcher.write_config(RunConfig(), folder)
    Launch("ray", folder.ledgers, "").write(folder)
    state = RunState(run="r", settings=config.to_flat(), secret=b"s" * 32, last=record(2))
    write_state(folder.path / STATE, state)
    return folder


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Config, folder, launch and whether resumed, of runs that would have been started."""
    seen: list[Any] = []

    def start(config, folder, start, ray, tell, *, resumed):
        seen.append((config, folder, start, resumed))

    monkeypatch.setattr(launcher, "_run", start)
    monkeypatch.setattr("fl_dp.launch.preflight.check_server", lambda config: None)
    monkeypatch.setattr(launcher, "ray_for_run", nullcontext)
    return seen


def resume(folder: Path, ray_address: str | None = None) -> list[str]:
    said: list[str] = []
    launcher.resume(folder, ray_address=ray_address, tell=ProgressReporter(said.append, quiet=True))
    return said


def test_a_killed_run_goes_on_as_it_was_launched(folder, run):
    said, which = resume(folder.path)
    assert said.startswith("resuming after round 2 of 3; files in ")
    assert (
        " ".join(which.split()) == f"ledger in {folder.ledgers}: what other runs have spent there is counted"
    )
    assert run == [(RunConfig(out=str(folder.path)), folder, Launch("ray", folder.ledgers, ""), True)]


def test_a_folder_that_has_moved_takes_its_ledgers_along(folder, run):
    moved = RunFolder(folder.path.rename(folder.path.parent / "moved"))
    resume(moved.path)
    config, _, start, _ = run[0]
    assert (config.out, start.ledgers) == (str(moved.path), moved.ledgers)


@pytest.mark.parametrize(
    ("ledgers", "one_run", "said"),
    [("out/ledgers", True, ", for this run alone: "), ("lasting", False, ": what")],
)
def test_a_ledger_stays_where_it_is_and_of_one_run_if_it_was(folder, run, tmp_path, ledgers, one_run, said):
    start = Launch("ray", tmp_path / ledgers, "", one_run_ledger=one_run, local_figures=one_run)
    start.write(folder)
    found = " ".join(resume(folder.path)[1].split())
    assert found.startswith(f"ledger in {tmp_path / ledgers}{said}")
    assert run[0][2] == start


def test_a_failed_run_goes_on_and_one_killed_before_any_client_was_asked_begins_again(folder, run):
    folder.summary.write_text(ended("failed"))
    (folder.path / STATE).unlink()
    assert resume(folder.path)[0].startswith("resuming after round 0 of 3")
    assert len(run) == 1
    assert not folder.summary.exists()  # what is said about the end is not that of the last attempt


def ended(status: str) -> str:
    return json.dumps(summary(status=status).to_dict())


def launch_toml(engine='"ray"', ledgers='""', address='""') -> str:
    return f"engine = {engine}\nledgers = {ledgers}\nray-address = {address}\n"


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("summary.json", ended("completed"), "nothing to resume, as the run has completed"),
        ("summary.json", ended("budget-exhausted"), "privacy budgets"),
        *(
            ("summary.json", text, r"summary\.json: is damaged")
            for text in ("", "[]", '{"status": 3}', "[" * 10_000)
        ),
        *(
            ("launch.toml", text, r"launch\.toml: ")
            for text in ("engine = ", "", launch_toml('"own"'), launch_toml("3"), launch_toml(ledgers="3"))
        ),
        ("config.toml", "clients = 2\nfit-clients = 1\n", "fit-clients = 1: the run was started with 2"),
        (STATE, "PK", r"state\.npz: damaged"),
    ],
)
def test_a_run_that_is_over_changed_or_damaged_stays_as_it_is(folder, run, name, text, words):
    (folder.path / name).write_text(text)
    with pytest.raises(ConfigError, match=words):
        resume(folder.path)
    assert (folder.path / name).read_text() == text
    assert run == []


@pytest.mark.parametrize("folder", ["absent", "empty"])
def test_a_folder_without_a_run_is_refused_and_left_alone(tmp_path, folder):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match=r"--resume .*: holds no run of run\.sh"):
        resume(tmp_path / folder)
    assert [path.name for path in tmp_path.rglob("*")] == ["empty"]


def test_only_one_process_at_a_time(folder, run):
    with exclusive(folder.lock), pytest.raises(ConfigError, match="another process is at work on this run"):
        resume(folder.path)
    assert run == []


def test_a_cluster_may_have_another_address_now(folder, run):
    resume(folder.path, "head:6379")
    assert run[0][2].ray_address == "head:6379"
    replace(Launch.read(folder), engine=None).write(folder)
    with pytest.raises(ConfigError, match="--ray-address head:6379: this run is no simulation"):
        resume(folder.path, "head:6379")


def test_a_run_of_another_version_is_declined_by_name(folder, run):
    (folder.path / "summary.json").write_text('{"status": "failed", "versions": {"fl-dp": "0.1.0"}}')
    for declined in (lambda: kept_config(folder), lambda: resume(folder.path)):
        with pytest.raises(ConfigError, match=r"summary\.json: was written by fl-dp 0\.1\.0"):
            declined()
    (folder.path / "summary.json").unlink()
    folder.config.write_text("a-key-of-then = 3\n")
    state = RunState(run="r", settings={}, secret=b"s" * 32, last=record(2), numerics=NUMERICS - 1)
    write_state(folder.path / STATE, state)
    with pytest.raises(ConfigError, match="a-key-of-then"):
        resume(folder.path)
    assert run == []
