"""Both epsilons of secure sums, wherever people or programs read one; nothing of them in other runs."""

import io
import json
import math

import pytest
from reporting.test_table import a_ledger
from rich.console import Console
from run_records import client as reported
from run_records import record, summary

from fl_dp.accounting.alone import compute_epsilon_alone
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.cli.common import run_command
from fl_dp.cli.main import app
from fl_dp.config.run import RunConfig
from fl_dp.federation.server.client_record import ClientRecord
from fl_dp.federation.server.report import client_budget, client_round, cost_of_run, federation_of
from fl_dp.federation.server.verify import Verdict
from fl_dp.records import ClientProfile, Entry
from fl_dp.reporting.budget_table import alone_line, budget_table, print_budgets
from fl_dp.reporting.console import alone_words, round_line
from fl_dp.reporting.ledger_report import account_reports
from fl_dp.reporting.reports import RoundReport
from fl_dp.reporting.run_files import Run, read_round
from fl_dp.reporting.run_folder import RunFolder

PLAIN, SHARED = Entry(0.1, 6.0, 5), Entry(0.1, 6.0, 5, 8)


def client(name: str, spent: tuple[Entry, ...], next_step: Entry = SHARED, **profile: object) -> ClientRecord:
    return ClientRecord(
        ClientProfile(name, 2000, 3.0, 1e-5, (), "rdp", **profile),
        1,
        spent,
        next_step,
        rounds=1,
        asked=spent,
    )


def report_of(*clients: ClientRecord, private: bool = True, step: Entry = SHARED) -> RoundReport:
    config = RunConfig(privacy="on" if private else "off", arithmetic="proven")
    cost = cost_of_run(clients, config)
    verdict = Verdict("trained", reported=(("steps", 1),), mechanism=step.taking(1))
    lines = {one.name: client_round(one, verdict, 2) for one in clients}
    budgets = federation_of(cost, lines, (), 2, config)
    return record(clients=lines, federation=budgets, private=private, epsilon=cost.epsilon)


def summary_of(*clients: ClientRecord) -> str:
    budgets = {one.name: client_budget(one, Verdict("trained"), 2, 3) for one in clients}
    return json.dumps(summary(budgets).to_dict())


def test_a_line_of_rounds_has_both_epsilons_and_is_read_again():
    report = report_of(client("a", (SHARED,)), client("b", (PLAIN,)))
    line = json.loads(report.line)
    alone = compute_epsilon_alone((SHARED,), 1e-5, "rdp")
    assert line["clients"]["a"]["epsilon_alone"] == line["federation"]["epsilon_alone"] == alone
    assert line["clients"]["a"]["shares"] == 8
    assert line["clients"]["a"]["charges"][0]["shares"] == 8
    assert "epsilon_alone" not in line["clients"]["b"]
    assert read_round(json.dumps(line), "line") == report
    assert f" (alone {alone_words(alone)}) of 3.00 " in round_line(report, 3)


def test_a_run_without_secure_sums_says_nothing_of_them():
    plain = client("a", (PLAIN,), PLAIN)
    report = report_of(plain, step=PLAIN)
    line = report.line
    for word in ("alone", "shares"):
        assert word not in line + summary_of(plain)
    assert "alone" not in round_line(report, 3)


def test_where_no_epsilon_holds_none_holds_alone():
    line = json.loads(report_of(client("a", (SHARED,)), private=False).line)
    assert line["federation"]["epsilon_alone"] is None
    hopeless = client("a", (Entry(0.5, 0.4, 50, 100),))
    assert hopeless.cost.epsilon_alone == math.inf
    assert json.loads(report_of(hopeless).line)["clients"]["a"]["epsilon_alone"] is None


@pytest.mark.parametrize(
    ("value", "words"), [(None, "none"), (math.inf, "none"), (20.1, "none"), (20.0, "20.00"), (1.234, "1.24")]
)
def test_what_is_of_no_use_is_never_a_number(value, words):
    assert alone_words(value) == words


def test_the_console_shows_both_columns_and_says_which_is_which(tmp_path):
    both = client("a", (SHARED,), epsilon_alone=5.0), client("b", (PLAIN,))
    (tmp_path / "summary.json").write_text(summary_of(*both))
    found = Run(RunFolder(tmp_path)).summary()
    assert found
    assert found.clients["a"].budget_alone == 5.0
    assert budget_table(found)[0][2] == "alone"
    file = io.StringIO()
    print_budgets(found, Console(file=file, width=120))
    printed = file.getvalue()
    alone = alone_words(compute_epsilon_alone((SHARED,), 1e-5, "rdp"))
    assert f'If that fails, "alone" holds: {alone} at most' in " ".join(printed.split())
    rows = [row.split() for row in printed.splitlines()]
    assert alone in next(row for row in rows if row[:1] == ["a"])[2]
    plain = next(row for row in rows if row[:1] == ["b"])
    assert plain[1] == plain[2]


@pytest.mark.parametrize(
    ("epsilons", "then"),
    [
        ((5.0, 7.0), '"alone" holds: 7.00 at most'),
        ((5.0, 400.0), '"alone" holds: 5.00 at most, and no useful one where it says none'),
        ((400.0, math.inf), "no useful epsilon holds"),
    ],
)
def test_the_largest_epsilon_that_holds_alone_is_a_number(epsilons, then):
    clients = {str(one): reported(epsilon_alone=one) for one in epsilons}
    assert alone_line(summary(clients)).endswith(f"If that fails, {then}")


def test_ledger_show_has_both(tmp_path, capsys):
    path = a_ledger(tmp_path)
    with Ledger.open_existing(path) as ledger:
        shared, plain = account_reports(ledger.accounts())
    assert shared.epsilon_alone == compute_epsilon_alone((SHARED,), 1e-5, "rdp")
    assert (shared.budget_alone, plain.epsilon_alone) == (4.0, None)
    assert shared.to_dict()["spent"][0]["shares"] == 8
    told = plain.to_dict()
    assert "alone" not in json.dumps(told, default=str)
    assert told["rounds"][0]["entry"] == PLAIN.to_dict()
    assert run_command(app, ["ledger", "show", str(path)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "total (alone)" in printed
    assert "only each client's own share of the noise protects it" in " ".join(printed.split())
