"""Files of settings and results: what is no plain file is refused at once."""

import os
from pathlib import Path

import pytest

from fl_dp.config.files import check_plain, read_json, read_toml
from fl_dp.errors import ConfigError
from fl_dp.reporting.run_files import Run
from fl_dp.reporting.run_folder import RunFolder


def run_of(file):
    return Run(RunFolder(file.parent))


READERS = pytest.mark.parametrize(
    ("read", "name"),
    [
        (read_json, "summary.json"),
        (read_toml, "config.toml"),
        (lambda file: run_of(file).summary(), "summary.json"),
        (lambda file: list(run_of(file).rounds()), "rounds.jsonl"),
    ],
)


@READERS
def test_a_pipe_is_not_waited_for(read, name, tmp_path):
    os.mkfifo(tmp_path / name)
    with pytest.raises(ConfigError, match=f"{name}: cannot be read: it is not a regular file"):
        read(tmp_path / name)


def test_what_is_not_there_is_for_others_to_say(tmp_path):
    check_plain(tmp_path / "nothing")
    with pytest.raises(ConfigError, match="no such file"):
        read_json(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("key", "number", "words"),
    [
        ("loss", "1" + "0" * 400, "loss has the wrong type"),
        ("loss", "-" + "9" * 30, "loss has the wrong type"),
        ("rounds", "1" + "0" * 400, "rounds has the wrong type"),
        ("epsilon", "NaN", "NaN is not a number"),  # which JSON has not: it would be printed as one
        ("epsilon", "-Infinity", "-Infinity is not a number"),
    ],
)
def test_a_number_that_is_none_is_damage(key, number, words, tmp_path):
    file = tmp_path / "summary.json"
    file.write_text(f'{{"status": "completed", "{key}": {number}}}')
    with pytest.raises(ConfigError, match=f"is damaged: {words}"):
        run_of(file).summary()
    file = tmp_path / "rounds.jsonl"
    file.write_text(f'{{"clients": {{}}, "metrics": {{}}, "epsilon": {number}}}\n')
    with pytest.raises(ConfigError, match="line 1: is damaged"):
        list(run_of(file).rounds())


@READERS
def test_no_link_leads_out_of_a_folder_that_others_gave(read, name, tmp_path):
    (tmp_path / "passwords").write_text("{}")
    folder = tmp_path / "run"
    folder.mkdir()
    for target in (tmp_path / "passwords", Path("../passwords"), Path("/dev/null"), Path("../nothing")):
        (folder / name).symlink_to(target)
        with pytest.raises(ConfigError, match=f"{name}: cannot be read: it is a link that leads out of"):
            read(folder / name)
        (folder / name).unlink()


@READERS
def test_a_link_to_itself_is_no_file(read, name, tmp_path):
    (tmp_path / name).symlink_to(name)
    with pytest.raises(ConfigError, match="leads nowhere"):
        read(tmp_path / name)


def test_a_link_within_the_folder_and_one_that_somebody_has_named_are_followed(tmp_path):
    folder = tmp_path / "linked"
    (tmp_path / "run").mkdir()
    folder.symlink_to("run")  # a folder may be called as it likes
    (folder / "a.toml").write_text("a = 1")
    (folder / "b.toml").symlink_to("a.toml")
    assert read_toml(folder / "b.toml") == {"a": 1}
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "own.toml").symlink_to("../run/a.toml")
    with pytest.raises(ConfigError, match="leads out"):
        read_toml(tmp_path / "own" / "own.toml")
    assert read_toml(tmp_path / "own" / "own.toml", named=True) == {"a": 1}
