"""What is refused before a site joins."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from federation.client.sites import PLAN, Site

from fl_dp.accounting.ledger import ledger
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.config.client import ClientConfig
from fl_dp.errors import ConfigError, LedgerError
from fl_dp.federation.client import journal
from fl_dp.launch.site import check_data_named, check_newest_ledger, check_task
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


def test_a_task_that_reads_its_own_records_names_them_and_no_test_row_is_read(tmp_path):
    (tmp_path / "reads.py").write_text(READS)
    (tmp_path / "looks.py").write_text(LOOKS)
    reads = settings(tmp_path, task=str(tmp_path / "reads.py"))
    check_data_named(reads)
    check_task(reads)
    for task in ("", str(tmp_path / "looks.py")):
        with pytest.raises(ConfigError, match=r"data: name this site's records.*--data digits"):
            check_data_named(settings(tmp_path, task=task))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"model": "lenet-gn"}, "client north would decline every round: model: .*does not fit"),
        ({"loss": "mse"}, r"loss: .*mse"),
        ({"device": "tpu"}, "device = 'tpu': not found on this machine"),
        ({"data": "csv:norht.csv"}, r"norht\.csv: no such file; expected a table\.$"),
        ({"model": "lenet-gn", "loss": "mse"}, r"^((?!\.;).)*$"),  # it reads as one sentence
    ],
)
def test_what_does_not_suit_the_records_is_refused_and_no_ledger_is_made(wrong, words, tmp_path):
    check_task(settings(tmp_path))
    with pytest.raises(ConfigError, match=words):
        check_task(settings(tmp_path, **wrong))
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def site(tmp_path: Path, flower_task: None) -> Site:
    """Whose data are entered in its ledger."""
    site = Site(tmp_path)
    site.register()
    return site


@contextmanager
def later(module: ModuleType) -> Iterator[None]:
    """Its clock is a minute ahead: times are told in seconds."""
    with pytest.MonkeyPatch.context() as patched:
        ahead = SimpleNamespace(now=lambda zone: datetime.now(zone) + timedelta(minutes=1))
        patched.setattr(module, "datetime", ahead)
        yield


def test_an_older_copy_of_the_ledger_is_noticed_by_the_journal_beside_it(site, tmp_path):
    file = tmp_path / "ledger.sqlite"
    with later(journal):
        assert isinstance(site.train(), LocalUpdate)
        older = file.read_bytes()
        check_newest_ledger(site.config)
        assert isinstance(site.train(replace(PLAN, server_round=2)), LocalUpdate)
    check_newest_ledger(site.config)
    newest = file.read_bytes()
    file.write_bytes(older)
    with pytest.raises(LedgerError, match="does not have round 2 of run run-1"):
        check_newest_ledger(site.config)
    file.write_bytes(newest)
    check_newest_ledger(site.config)


def test_a_ledger_that_was_deleted_is_noticed_and_one_that_was_retired_is_not(site, tmp_path):
    assert isinstance(site.train(), LocalUpdate)
    with later(ledger):
        with Ledger.open(tmp_path / "ledger.sqlite") as opened:
            opened.retire("digits, part 0/2 (iid, seed 0)")
        site.register()
        check_newest_ledger(site.config)
        (tmp_path / "ledger.sqlite").unlink()
        site.register()
    with pytest.raises(LedgerError, match="is an older copy or was started anew"):
        check_newest_ledger(site.config)
