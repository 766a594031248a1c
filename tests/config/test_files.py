"""Files of settings and results: what is not a regular file is refused at once."""

import json
import os

import pytest
from run_records import record, summary

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


@pytest.mark.parametrize("number", ["1" + "0" * 400, "-Infinity", "NaN"])  # JSON has not the latter
def test_a_number_that_is_none_is_damage(number, tmp_path):
    file = tmp_path / "summary.json"
    file.write_text(json.dumps(summary().to_dict()).replace('"loss": null', f'"loss": {number}'))
    with pytest.raises(ConfigError, match=r"is damaged: (loss|it is not readable JSON)"):
        run_of(file).summary()
    file = tmp_path / "rounds.jsonl"
    file.write_text(json.dumps(record().to_dict()).replace('"loss": 0.5', f'"loss": {number}') + "\n")
    with pytest.raises(ConfigError, match="line 1: is damaged: loss"):
        list(run_of(file).rounds())
