"""What is refused before a site joins."""

import time
from dataclasses import replace
from pathlib import Path

import pytest
from federation.client.sites import PLAN, Site
from flwr.supercore.task_identity import TaskIdentity

from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.config.client import ClientConfig
from fl_dp.errors import ConfigError, LedgerError
from fl_dp.launch.client_checks import check_data_named, check_newest_ledger, check_task
from fl_dp.records import LocalUpdate

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
    return ClientConfig(client="north", ledger=str(tmp_path / "l.sqlite"), **more)


def test_a_task_that_reads_its_own_records_names_them(tmp_path):
    (tmp_path / "reads.py").write_text(READS)
    (tmp_path / "looks.py").write_text(LOOKS)
    check_data_named(settings(tmp_path, task=str(tmp_path / "reads.py")))
    for task in ("", str(tmp_path / "looks.py")):
        with pytest.raises(ConfigError, match=r"data: name this site's records.*--data digits"):
            check_data_named(settings(tmp_path, task=task))


def test_a_model_that_does_not_suit_the_records_is_refused_and_no_ledger_is_made(tmp_path):
    check_task(settings(tmp_path))
    with pytest.raises(ConfigError, match=r"client north would decline every round: model: .*does not fit"):
        check_task(settings(tmp_path, model="lenet-gn", data="digits"))
    with pytest.raises(ConfigError, match=r"loss: .*mse"):
        check_task(settings(tmp_path, loss="mse"))
    with pytest.raises(ConfigError, match="device = 'tpu': not found on this machine"):
        check_task(settings(tmp_path, device="tpu"))
    assert list(tmp_path.iterdir()) == []


def test_no_test_row_is_read(tmp_path):
    (tmp_path / "reads.py").write_text(READS)
    check_task(settings(tmp_path, task=str(tmp_path / "reads.py")))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """Whose data are entered in its ledger."""
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
    site = Site(tmp_path)
    site.register()
    return site


def test_an_older_copy_of_the_ledger_is_noticed_by_the_journal_beside_it(site, tmp_path):
    ledger = tmp_path / "ledger.sqlite"
    time.sleep(1.1)  # times are told in seconds
    assert isinstance(site.train(), LocalUpdate)
    older = ledger.read_bytes()
    check_newest_ledger(site.config)
    assert isinstance(site.train(replace(PLAN, server_round=2)), LocalUpdate)
    check_newest_ledger(site.config)
    newest = ledger.read_bytes()
    ledger.write_bytes(older)
    with pytest.raises(LedgerError, match="does not know of round 2 of run run-1"):
        check_newest_ledger(site.config)
    ledger.write_bytes(newest)
    check_newest_ledger(site.config)


def test_a_ledger_that_was_deleted_is_noticed_and_one_that_was_retired_is_not(site, tmp_path):
    assert isinstance(site.train(), LocalUpdate)
    time.sleep(1.1)
    with Ledger.open(tmp_path / "ledger.sqlite") as ledger:
        ledger.retire("digits, part 0/2 (iid, seed 0)")
    site.register()
    check_newest_ledger(site.config)
    (tmp_path / "ledger.sqlite").unlink()
    site.register()
    with pytest.raises(LedgerError, match="is an older copy, or was begun anew"):
        check_newest_ledger(site.config)


def test_what_was_found_reads_as_one_sentence(tmp_path):
    with pytest.raises(ConfigError) as error:
        check_task(settings(tmp_path, data=f"csv:{tmp_path}/norht.csv"))
    assert str(error.value).endswith("norht.csv: no such file; expected a table, its schema beside it.")
    with pytest.raises(ConfigError) as error:
        check_task(settings(tmp_path, model="lenet-gn", loss="mse"))
    assert ".;" not in str(error.value)
