"""What client.py makes of its options, up to the point where it would join."""

from pathlib import Path

import pytest

from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.cli import client as module
from fl_dp.cli.common import run_command
from fl_dp.config.client import ClientConfig
from fl_dp.kits.kit import accept, new_site_kit
from fl_dp.kits.provision import Wishes, provision
from fl_dp.kits.roster import read_join_request


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[ClientConfig]:
    """Settings with which the client would have been started."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    seen: list[ClientConfig] = []
    monkeypatch.setattr("fl_dp.launch.site.run_client", lambda one, *_, **__: seen.append(one) or 0)
    return seen


def client(*words: str) -> int:
    """Of digits, unless the words name data."""
    named = {"--data", "--task", "--config"} & set(words) or any("task=" in word for word in words)
    data = [] if named else ["--data", "digits"]
    return run_command(module.client_app, [*data, *words], prog="client.py")


def test_the_ledger_lasts_and_is_shown_and_which_servers_can_be_meant(joined, tmp_path, capsys):
    assert client("--name", "clinic") == 0
    assert joined[0].ledger == str(tmp_path / "state/fl-dp/ledger/ledger.sqlite")
    out = capsys.readouterr().out
    assert joined[0].ledger in out
    assert "without --kit: joins only this user's server on this machine" in out


def test_options_are_the_clients_own_limits(joined):
    limits = ["--epsilon", "2", "--delta", "1e-6", "--min-noise-multiplier", "1", "--max-grad-norm", "0.5"]
    assert client("--name", "a", "--partition", "1/3", *limits) == 0
    (settings,) = joined
    assert (settings.epsilon, settings.delta) == (2.0, 1e-6)
    assert (settings.min_noise_multiplier, settings.max_grad_norm) == (1.0, 0.5)
    assert (settings.partition_id, settings.num_partitions) == (1, 3)


def test_options_stand_above_the_file(joined, tmp_path):
    file = tmp_path / "client.toml"
    own = tmp_path / "own.sqlite"
    file.write_text(f'client = "a"\nledger = "{own}"\nepsilon = 1.0\ndata = "digits"\n')
    assert client("--config", str(file), "--epsilon", "0.5") == 0
    assert client("--config", str(file), "--ledger", str(tmp_path)) == 0
    assert [one.epsilon for one in joined] == [0.5, 1.0]
    assert [one.ledger for one in joined] == [str(own), str(tmp_path / "ledger.sqlite")]


def test_another_name_on_the_same_data_goes_on_in_the_same_account(joined):
    assert [client("--name", name) for name in ("a", "b")] == [0, 0]
    assert joined[0].ledger == joined[1].ledger
    with Ledger.open_existing(Path(joined[0].ledger)) as ledger:
        assert [account.dataset for account in ledger.accounts()] == ["digits"]


def test_one_site_name_in_two_federations_has_a_folder_of_its_own_in_each(tmp_path, monkeypatch, joined):
    """And one ledger: what the data have spent in one counts in the other."""
    folders: list[Path] = []
    monkeypatch.setattr(
        "fl_dp.launch.site.run_client", lambda one, *_, folder, **__: folders.append(folder) or 0
    )
    for federation in ("hospitals", "registers"):
        kit = tmp_path / federation / "kit"
        asked = read_join_request(new_site_kit(kit, "north"))
        roster = provision(Wishes(federation, ("fl.example.org:9092",), (asked,), 30), kit.parent / "made")
        accept(kit, kit.parent / "made/roster.json", roster.authority)
        assert client("--kit", str(kit)) == 0
    assert client("--name", "north") == 0
    assert [one.name for one in folders] == ["north@hospitals", "north@registers", "north"]
    assert (tmp_path / "state/fl-dp/ledger/ledger.sqlite").exists()


def test_more_records_than_are_declared_are_told_here_before_joining(joined, tmp_path, capsys):
    assert client("--set", "public-size=1000") == 2
    assert "public-size = 1000: the data have 1" in capsys.readouterr().err
    assert joined == []
    with Ledger.open_existing(tmp_path / "state/fl-dp/ledger/ledger.sqlite") as ledger:
        assert ledger.accounts() == []


def test_a_file_is_no_folder_of_a_ledger(joined, tmp_path, capsys):
    Ledger.open(tmp_path / "north.sqlite").close()
    assert client("--ledger", str(tmp_path / "north.sqlite")) == 2
    assert "expected a folder" in capsys.readouterr().err
    assert joined == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        *((["--name", name], f"client = {name!r:.5}") for name in ("a/b", "north ", "a\nb", "-x", "n" * 65)),
        (["--partition", "2/2"], "partition-id = 2: expected an integer from 0"),
        (["--partition", "2"], "--partition 2: expected K/N"),
        (["--partition", f"{'1' * 5000}/2"], "expected K/N"),
        (["--epsilon", "0"], "epsilon = 0.0"),
        (["--server", "nohost"], "--server: nohost: expected HOST:PORT"),
        (["--server", "hospital.example:9092"], "a server on another machine needs a kit, --kit FOLDER"),
        (["--kit", "absent"], "--kit absent: no such folder. Sites make theirs with fl-dp join-request"),
        (["--config", "absent.toml"], "--config absent.toml"),
        (["--set", "rounds=3"], "rounds: a key of the run, which clients do not set"),
        (["--model", "linear", "--set", "model=mlp"], "--set model=...: is also given as an option"),
        (["--task", "absent.py"], "absent.py': no such file"),
        (["--model", "lenet-gn"], "would decline every round: model: model = 'lenet-gn' does not fit"),
    ],
)
def test_a_bad_option_is_named_and_nothing_is_started(words, expected, joined, tmp_path, capsys):
    assert client(*words) == 2
    assert expected in capsys.readouterr().err
    assert joined == []
    assert not (tmp_path / "state/fl-dp/ledger").exists()


def test_other_data_do_not_get_the_name_of_a_files_own(joined, tmp_path, capsys):
    """Else three hospitals with one file of settings would be booked as the first."""
    file = tmp_path / "client.toml"
    file.write_text('data = "digits"\ndata-name = "ward 1"\n')
    assert client("--config", str(file), "--data", "digits") == 2
    assert (
        f"--data digits: data-name = 'ward 1' in {file} is the name of other data" in capsys.readouterr().err
    )
    assert client("--config", str(file), "--data", "digits", "--set", "data-name=ward 2") == 0
    assert client("--config", str(file), "--ledger", str(tmp_path / "other")) == 0
    assert [one.data_name for one in joined] == ["ward 2", "ward 1"]


def test_training_without_protection_is_allowed_by_its_name_alone(joined, tmp_path, capsys):
    assert client("--name", "a") == 0
    assert "NOT PRIVATE" not in capsys.readouterr().out
    assert client("--name", "a", "--allow-unprotected") == 0
    assert "NOT PRIVATE: servers may train on these data without protection" in capsys.readouterr().out
    file = tmp_path / "client.toml"
    file.write_text('allow-unprotected = true\ndata = "digits"\n')
    assert client("--config", str(file)) == 0
    assert [one.allow_unprotected for one in joined] == [False, True, True]


TASK = """
from torch import nn
from fl_dp import Task
class Ours(Task):
    classes = ("no", "yes")
    def train_data(self):
        return [[0.0], [1.0]], [0, 1]
"""


def test_the_clients_task_is_its_own_and_is_looked_for_where_it_was_written(joined, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_task.py").write_text(TASK)
    (tmp_path / "client.toml").write_text('task = "my_task.py"\n')
    assert client("--task", "my_task.py", "--model", "linear", "--loss", "cross-entropy") == 0
    assert client("--set", "task=my_task.py", "--set", "memory-mib=64") == 0
    monkeypatch.chdir("/")
    assert client("--config", str(tmp_path / "client.toml")) == 0
    assert [one.task for one in joined] == [str(tmp_path / "my_task.py")] * 3
    assert joined[1].memory_mib == 64


@pytest.mark.parametrize("words", [["--name", "a"], ["--model", "linear", "--epsilon", "1"]])
def test_nothing_is_entered_that_nobody_named(words, joined, tmp_path, capsys):
    assert run_command(module.client_app, words, prog="client.py") == 2
    assert "data: name this site's records" in capsys.readouterr().err
    assert joined == []
    assert not (tmp_path / "state").exists()
