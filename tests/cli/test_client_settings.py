import pytest

from fl_dp.cli.client_settings import own_settings
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.launch.clients import write_client_files
from fl_dp.launch.resumption import Launch
from fl_dp.reporting.run_folder import RunFolder


def test_mistakes_of_a_client_say_where_they_stand_all_at_once(tmp_path):
    file = tmp_path / "site.toml"
    file.write_text('data = "digits"\nepsilonn = 1\n')
    with pytest.raises(ConfigError) as told:
        own_settings(file, {"client": "a/b", "delta": 2.0}, ["accountannt=pld"], tmp_path / "l")
    assert [line.strip().partition(" = ")[0].partition("; ")[0] for line in str(told.value).splitlines()] == [
        "3 mistakes:",
        f"--config {file}, line 2: epsilonn: unknown key",
        "--delta: delta",
        "--set: accountannt: unknown key",
    ]
    with pytest.raises(ConfigError, match=r"^--name: client = 'a/b': expected a name of 1 to 64"):
        own_settings(None, {"client": "a/b", "data": "digits"}, (), tmp_path / "l")


def test_the_ledger_of_a_file_is_a_file_and_not_the_folder_of_the_option(tmp_path):
    file = tmp_path / "client.toml"
    for ledger in ("ledger3", "of.north/"):
        file.write_text(f'data = "digits"\nledger = "{ledger}"\n')
        with pytest.raises(ConfigError, match=f"in .sqlite; name {ledger.strip('/')}/ledger.sqlite"):
            own_settings(file, {}, (), None)
    assert own_settings(file, {}, ["ledger=here.sqlite"], None).ledger == "here.sqlite"


def test_a_site_never_says_that_its_ledger_was_made_for_one_run(tmp_path):
    with pytest.raises(ConfigError, match=r"one-run-ledger = true: a site's ledger lasts.*leave the key out"):
        own_settings(None, {"client": "a", "data": "digits"}, ["one-run-ledger=true"], tmp_path)


def test_a_client_of_a_run_is_brought_back_with_the_ledger_of_that_run_until_it_is_over(tmp_path):
    run = RunFolder(tmp_path)
    Launch(None, run.ledgers, "", one_run_ledger=True).write(run)
    files = write_client_files(RunConfig(), run.clients, run.ledgers, one_run=True)
    assert own_settings(files[1], {}, (), None).one_run_ledger
    elsewhere = files[1].rename(tmp_path / "site.toml")
    for file, ledger in ((elsewhere, None), (files[0], tmp_path / "another")):
        with pytest.raises(ConfigError, match="a site's ledger lasts"):
            own_settings(file, {}, (), ledger)
    run.summary.touch()
    with pytest.raises(ConfigError, match="a site's ledger lasts"):
        own_settings(files[0], {}, (), None)


READS = """
from fl_dp import Task
class Ours(Task):
    def train_data(self):
        return [[0.0], [1.0]], [0, 1]
"""
LOOKS = """
from fl_dp import Task
class Ours(Task):
    pass
"""


def test_a_task_that_reads_its_own_records_names_them(tmp_path):
    for name, text in (("reads", READS), ("looks", LOOKS)):
        (tmp_path / f"{name}.py").write_text(text)
    reads, looks = (str(tmp_path / f"{name}.py") for name in ("reads", "looks"))
    assert own_settings(None, {"task": reads}, (), tmp_path).task == reads
    for given in ({}, {"task": looks}):
        with pytest.raises(ConfigError, match=r"data: name this site's records.*--data digits"):
            own_settings(None, given, (), tmp_path)
