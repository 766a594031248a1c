"""A check finds what a launch would refuse, all at once where it can, and starts nothing."""

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fl_dp
from fl_dp.accounting.budget import Budget
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError, ExitCode
from fl_dp.federation.client import registration
from fl_dp.launch.check import CheckResult, check_run
from fl_dp.launch.check_words import print_check
from fl_dp.launch.clients import client_config
from fl_dp.launch.request import RunRequest, request_of
from fl_dp.records import Entry
from fl_dp.reporting.console import rounded_up

CONFIG = RunConfig(rounds=2, noise_multiplier=4.0, accountant="rdp")
TASK = """\
import torch
from torch import nn

from fl_dp.tasks.task import Task


class Normed(Task):
    classes = 3

    def model(self):
        return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))

    def train_data(self):
        return torch.randn(300, 4), torch.arange(300) % 3

    def test_data(self):
        return self.train_data()
"""


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def checked(config: RunConfig, **more: object) -> CheckResult:
    return check_run(RunRequest(config, ()), engine=None, **more)


def said(found: CheckResult, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    print_check(found, print, simulated=False)
    return capsys.readouterr().out


def test_a_run_that_would_go_is_told_with_its_costs(tmp_path, capsys):
    found = checked(replace(CONFIG, noise_multiplier="auto"))
    assert (found.exit_code, found.problems) == (ExitCode.TRAINED, ())
    out = said(found, capsys)
    assert "2 clients with 1442 records: largest 721, median 721, smallest 721; 2 train in each of 2" in out
    assert "\nnoise-multiplier " in out
    assert "\nat the end: eps 3.00 of 3.00\n" in out
    assert "at delta 1e-05, by rdp, assuming steady rows" in " ".join(out.split())
    assert "\nno budget ends before the last round\n" in out
    memory = found.forecast.memory
    total, step = (
        math.ceil(one / 2**20) for one in (memory.resident_bytes + memory.step_bytes, memory.step_bytes)
    )
    assert f"memory: about {total} MiB resident" in out
    assert f"at most {step} MiB of them for a step" in out
    assert out.endswith("\nit would run\n")
    assert list(tmp_path.iterdir()) == []


def test_of_secure_sums_both_epsilons_are_told(capsys):
    sums = replace(CONFIG, aggregation="secure", clients=4, min_clients=4, fit_clients=4, epsilon=9.0)
    found = checked(sums)
    out = said(found, capsys)
    alone = rounded_up(found.forecast.epsilon_alone)
    head, first = out.split("Cost of the whole run")[1].splitlines()[1:3]
    assert head.split()[-1] == "alone"
    assert first.split()[-1] == alone
    assert f"(alone {alone}) of 9.00" in out


def test_a_run_of_real_clients_is_foreseen_on_the_ledger_that_lasts_unless_it_has_its_own(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(registration, "is_public", lambda config: False)  # or it would have its own
    own = client_config(CONFIG, 0, tmp_path / "state/fl-dp/ledger")
    with Ledger.open(Path(own.ledger)) as ledger:
        ledger.register(registration.dataset_name(own), "f", 721)
        ledger.reserve(
            registration.dataset_name(own), "run", 1, Entry(0.1, 4.0, 10), Budget(3.0, 1e-5, "rdp")
        )
    before = [one.before for one in checked(CONFIG).forecast.clients]
    assert [spent > 0 for spent in before] == [True, False]
    alone = checked(CONFIG, one_run_ledger=True).forecast
    assert [one.before for one in alone.clients] == [0.0, 0.0]
    assert "leave one of the two out" in " ".join(
        checked(CONFIG, one_run_ledger=True, ledger=tmp_path).problems
    )


def test_several_mistakes_are_told_at_once(tmp_path, capsys):
    (tmp_path / "old").mkdir()
    (tmp_path / "old/config.toml").touch()
    config = replace(CONFIG, device="cuda:77", partition="sizes:99999,1")
    found = checked(config, out=tmp_path / "old")
    assert found.exit_code == ExitCode.USAGE
    assert [one.partition(":")[0].partition(" = ")[0] for one in found.problems] == [
        f"--out {tmp_path}/old",
        "device",
        "partition",
    ]
    out = said(found, capsys)
    assert out.count("wrong: ") == 3
    assert out.endswith("\nit would not start\n")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"data": "digts"}, "did you mean digits?"),
        ({"epsilon": 1e-5}, "epsilon = 1e-05"),
        ({"task": "nowhere.py"}, "nowhere.py"),
    ],
)
def test_each_mistake_ends_it_with_2(change, words):
    found = checked(replace(CONFIG, **change))
    assert (found.exit_code, found.forecast) == (ExitCode.USAGE, None)
    assert words in "\n".join(found.problems)


def test_budgets_that_end_early_are_told_with_who_and_when(capsys):
    found = checked(replace(CONFIG, rounds=9, noise_multiplier=1.0, epsilon=2.0))
    assert found.exit_code == ExitCode.BUDGET_EXHAUSTED
    out = said(found, capsys)
    ends = found.forecast.ends
    assert f"the budget has no room for a step in round {ends}: clients 0, 1\n" in out
    assert f"the run would end before round {ends} of 9: budgets are spent" in out
    assert out.endswith("\nit would start but end early\n")


def test_a_run_without_privacy_is_told_to_be_none(capsys):
    found = check_run(request_of(CONFIG, {"privacy": "off"}), engine=None)
    out = said(found, capsys)
    assert "note: NOT PRIVATE" in out
    assert "at the end: NOT PRIVATE (no epsilon holds)" in out
    assert "\ndevice " in out
    assert "\ndelta " not in out
    assert capsys.readouterr().err == "", "of the step that is measured nothing is said"
    assert found.exit_code == ExitCode.TRAINED


def test_of_many_clients_the_largest_median_and_least_are_shown(capsys):
    config = replace(CONFIG, clients=12, min_clients=3, fit_clients=3, partition="linear")
    out = said(checked(config), capsys)
    assert [line.split(" ")[0] for line in out.splitlines() if " (" in line[:14]] == [
        "largest",
        "median",
        "least",
    ]
    assert "(steps: per round), in " in " ".join(out.split())
    assert re.search(r"clients train in 0 to \d of 2 rounds", out)


def test_a_servers_config_needs_no_records_here(tmp_path, capsys):
    (tmp_path / "patients.schema.toml").write_text(
        '[columns.age]\nkind = "number"\nrange = [0, 100]\n[columns.ill]\nkind = "label"\nclasses = [0, 1]\n'
    )
    config = replace(CONFIG, data="csv:patients.csv", evaluate="off")
    found = checked(config)
    assert found.exit_code == ExitCode.USAGE
    assert "fl-dp check --server" in said(found, capsys)
    served = check_run(RunRequest(config, ()), engine=None, server=True)
    assert (served.exit_code, served.problems) == (ExitCode.TRAINED, ())
    assert said(served, capsys).startswith("the server would start.")
    refused = check_run(
        RunRequest(replace(config, evaluate="server"), ()), engine=None, server=True
    )  # it needs test data, then
    assert refused.exit_code == ExitCode.USAGE
    assert "patients.csv: no such file" in refused.problems[0]


def test_a_mistake_that_two_steps_meet_is_told_once(tmp_path):
    schema = '[columns.a]\nkind = "number"\nrange = [0, 1]\n[columns.y]\nkind = "label"\nclasses = [0, 1]\n'
    for client in ("0", "1", "server"):
        (tmp_path / f"{client}.schema.toml").write_text(schema)
        (tmp_path / f"{client}.csv").write_text("a,y\n,0\n1,1\n")
    found = checked(replace(CONFIG, data="csv:{client}.csv", evaluate="off", schema="0.schema.toml"))
    assert len([one for one in found.problems if "0.csv" in one]) == 1
    (tmp_path / "bad.toml").write_text('missing = [""]\n')
    (one,) = checked(replace(CONFIG, data="csv:{client}.csv", schema="bad.toml")).problems
    assert one.startswith("client 0: ")
    assert "expected a part [columns.NAME]" in one


@pytest.mark.parametrize(("epsilon", "drowned"), [(0.01, True), (3.0, False)])
def test_a_run_whose_noise_drowns_its_records_is_said_to_show_nothing(epsilon, drowned, capsys):
    found = checked(replace(CONFIG, noise_multiplier="auto", epsilon=epsilon))
    assert found.exit_code == ExitCode.TRAINED
    assert ("will hardly learn anything" in said(found, capsys)) is drowned


def test_all_that_training_would_refuse_of_a_task_is_told(tmp_path):
    norms = TASK.replace("nn.Linear(8, 3)", "nn.BatchNorm1d(8), nn.Linear(8, 3)")
    (tmp_path / "normed.py").write_text(f'{norms}\n    metrics = ("mae",)\n')
    found = checked(replace(CONFIG, task="normed.py"))
    assert [one.partition(": ")[0] for one in found.problems] == [
        "metrics",
        "model, layer 1",
        "model, layer 2",
    ]
    assert "replace it by a group norm" in found.problems[1]
    assert "300 records, numbers of shape (4,) to 3 classes" in found.notes


def test_a_metric_of_ones_own_is_tried(tmp_path):
    text = TASK.replace("nn.BatchNorm1d(8)", "nn.Tanh()")
    (tmp_path / "own.py").write_text(f"{text}\n    metrics = (lambda x, y: x / None,)\n")
    (problem,) = checked(replace(CONFIG, task="own.py")).problems
    assert "metrics of the task (<lambda>)" in problem


@pytest.mark.parametrize(("width", "problems"), [(4, 0), (3, 1)])
def test_of_clients_files_the_first_and_the_servers_are_tried(width, problems, tmp_path):
    for client in ("0", "1"):
        x = np.eye(4, dtype=np.float32) + int(client)  # a ledger refuses the same records twice
        np.savez(tmp_path / f"{client}.npz", classes=["no", "yes"], x_train=x, y_train=np.array([0, 1, 1, 0]))
    test = {"x_test": np.eye(width, dtype=np.float32), "y_test": np.zeros(width, int)}
    np.savez(tmp_path / "server.npz", classes=["no", "yes"], **test)
    found = checked(replace(CONFIG, data="npz:{client}.npz", expected_batch_size=2, physical_batch_size=2))
    assert len(found.problems) == problems
    assert all("numbers of shape (3,)" in one for one in found.problems)
    assert any("0.npz was read, and no other client's file" in note for note in found.notes)


def test_from_python_it_takes_the_words_of_a_simulation(tmp_path):
    found = fl_dp.check(CONFIG, noise_multiplier="auto", epsilon=2.0)
    assert found.problems == ()
    assert 1.9 < found.forecast.epsilon <= 2.0
    assert {one.noise_multiplier for one in found.forecast.mechanisms} == {
        found.forecast.resolved.noise_multiplier
    }
    assert "did you mean digits?" in fl_dp.check(data="digts").problems[0]
    with pytest.raises(ConfigError, match=r"did you mean rounds\?"):
        fl_dp.check(round=1)
    assert list(tmp_path.iterdir()) == []
