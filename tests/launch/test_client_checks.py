"""What is refused before a site joins."""

from pathlib import Path

import pytest

from fl_dp.config.client import ClientConfig
from fl_dp.errors import ConfigError
from fl_dp.launch.client_checks import check_data_named, check_task

READS = """
from fl_dp import Task
class Ours(Task):
    classes = ("no", "yes")
    def train_data(self):
        return [[0.0], [1.0]], [0, 1]
    def test_data(self):
        raise RuntimeError("read")
"""
LOOKS = """
from fl_dp import Task
class Ours(Task):
    pass
"""


def settings(tmp_path: Path, **more: object) -> ClientConfig:
    return ClientConfig(client="north", ledger=str(tmp_path / "l.sqlite"), **more)  # type: ignore[arg-type]


def test_a_task_that_reads_its_own_records_names_them(tmp_path: Path) -> None:
    (tmp_path / "reads.py").write_text(READS)
    (tmp_path / "looks.py").write_text(LOOKS)
    check_data_named(settings(tmp_path, task=str(tmp_path / "reads.py")))
    for task in ("", str(tmp_path / "looks.py")):
        with pytest.raises(ConfigError, match=r"data: name this site's records.*--data digits"):
            check_data_named(settings(tmp_path, task=task))


def test_a_model_that_does_not_suit_the_records_is_refused_and_no_ledger_is_made(tmp_path: Path) -> None:
    check_task(settings(tmp_path))
    with pytest.raises(ConfigError, match=r"client north would decline every round: model: .*does not fit"):
        check_task(settings(tmp_path, model="lenet-gn", data="digits"))
    with pytest.raises(ConfigError, match=r"loss: .*mse"):
        check_task(settings(tmp_path, loss="mse"))
    assert list(tmp_path.iterdir()) == []


def test_no_test_row_is_read(tmp_path: Path) -> None:
    (tmp_path / "reads.py").write_text(READS)
    check_task(settings(tmp_path, task=str(tmp_path / "reads.py")))
