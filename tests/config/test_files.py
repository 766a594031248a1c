"""Files of settings and results: what is no plain file is refused at once."""

import os
from pathlib import Path

import pytest

from fl_dp.config.files import check_plain, read_json, read_toml
from fl_dp.errors import ConfigError
from fl_dp.reporting.new_rounds import NewRounds
from fl_dp.reporting.read_results import each_round, read_summary


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "summary.json"
    os.mkfifo(pipe)
    for read in (
        read_json, read_toml, read_summary, lambda path: list(each_round(path)),
        lambda path: NewRounds(path).new(),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=r"summary\.json: cannot be read: it is no plain file"):
            read(pipe)


def test_what_is_not_there_is_for_others_to_say(tmp_path: Path) -> None:
    check_plain(tmp_path / "nothing")
    with pytest.raises(ConfigError, match="no such file"):
        read_json(tmp_path / "nothing")


@pytest.mark.parametrize("loss", ["1" + "0" * 400, "-" + "9" * 30])
def test_a_number_of_hundreds_of_digits_is_damage(loss: str, tmp_path: Path) -> None:
    file = tmp_path / "summary.json"
    file.write_text(f'{{"status": "completed", "loss": {loss}}}')
    with pytest.raises(ConfigError, match="is damaged: loss is not of its type"):
        read_summary(file)
