"""Which ledger a run's clients pay from, and what is said of it."""

from dataclasses import replace
from pathlib import Path

import pytest

from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.launch.ledger_place import (
    check_one_choice,
    ledger_place,
    named_ledger,
    way_on,
)
from fl_dp.launch.resumption import Launch
from fl_dp.reporting.run_folder import RunFolder

TABLE = RunConfig(data="csv:patients.csv")
ALONE = "ledger in {own}, for this run alone: what other runs spend is not counted"


@pytest.mark.parametrize(
    ("config", "engine", "asked", "why"),
    [
        (TABLE, "ray", False, "for private data name a lasting ledger: --ledger DIR"),
        (TABLE, None, True, "--one-run-ledger"),
        (replace(TABLE, public_data=True), None, False, "public-data = true"),
        (RunConfig(data="digits"), None, False, "these data are public"),
    ],
)
def test_a_ledger_of_one_run_lies_below_it_and_is_said_to_be_so(tmp_path, config, engine, asked, why):
    folder = RunFolder(tmp_path)
    place = ledger_place(config, engine, None, one_run=asked)
    assert place.one_run
    assert place.within(folder) == folder.ledgers
    assert place.line(folder).startswith(ALONE.format(own=folder.ledgers))
    assert why in place.line(folder)


def test_real_clients_keep_a_ledger_that_lasts(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    lasting, folder = tmp_path / "state" / "fl-dp" / "ledger", RunFolder(tmp_path / "run")
    place = ledger_place(TABLE, None, None)
    assert not place.one_run
    assert place.within(folder) == lasting
    assert place.line(folder).startswith(
        f"ledger in {lasting}: what other runs have spent there is counted ("
    )
    assert "--one-run-ledger, or public-data = true" in place.line(folder)


def test_a_ledger_that_is_named_is_of_no_run_alone():
    for engine in ("ray", None):
        place = ledger_place(replace(TABLE, public_data=True), engine, Path("/var/ledger"))
        assert place.folder == Path("/var/ledger")
        said = place.line(RunFolder(Path("/run")))
        assert said == "ledger in /var/ledger: what other runs have spent there is counted"
    with pytest.raises(ConfigError, match="--ledger /var/ledger: --one-run-ledger asks"):
        check_one_choice(Path("/var/ledger"), one_run=True)


def test_a_ledger_of_its_own_names_no_way_on_and_another_does(tmp_path):
    folder = RunFolder(tmp_path)
    assert not way_on(folder)  # of a server, whose clients' ledgers are elsewhere
    Launch(None, folder.ledgers, "", one_run_ledger=True).write(folder)
    assert Launch.read(folder).one_run_ledger
    assert not way_on(folder)
    Launch(None, tmp_path / "lasting", "").write(folder)
    assert not Launch.read(folder).one_run_ledger
    words = "\n".join(way_on(folder))
    assert all(
        one in words for one in (f"fl-dp ledger show {tmp_path}", "--set epsilon=N", "--one-run-ledger")
    )


def test_a_file_is_what_it_is_and_a_folder_or_a_run_holds_one(tmp_path):
    assert named_ledger(tmp_path / "some.sqlite") == tmp_path / "some.sqlite"  # whether it is there or not
    for folder in ("run/ledgers", "lasting"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "ledger.sqlite").touch()
        assert named_ledger(tmp_path / folder) == tmp_path / folder / "ledger.sqlite"
    assert named_ledger(tmp_path / "run") == tmp_path / "run/ledgers/ledger.sqlite"
    (tmp_path / "other").mkdir()
    Launch("ray", tmp_path / "lasting", "").write(
        RunFolder(tmp_path / "other")
    )  # a run whose ledgers are elsewhere
    assert named_ledger(tmp_path / "other") == tmp_path / "lasting/ledger.sqlite"


def test_a_folder_without_one_is_refused_with_what_was_looked_for(tmp_path):
    (tmp_path / "ledgers").mkdir()
    with pytest.raises(ConfigError, match=r"no ledger; looked for .*/ledger.sqlite and .*/ledgers/ledger"):
        named_ledger(tmp_path)
