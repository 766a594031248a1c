"""Accounts: what a ledger's events say about each data set, retirements included."""

import pytest

from fl_dp.accounting.budget import Budget, auto_delta
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.accounting.ledger import event_log
from fl_dp.accounting.ledger.accounts import NotedBudget, lineages
from fl_dp.accounting.ledger.event_log import EventLog
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.accounting.ledger.requests import ReservationRequest
from fl_dp.errors import ConfigError, DeclinedError, LedgerError
from fl_dp.records import Entry, total_steps
from fl_dp.reporting.ledger_report import account_reports
from fl_dp.verify.ledger_file import read_ledger

BUDGET = Budget(epsilon=9.0, delta=1e-6, accountant="rdp")
MECHANISM = (0.1, 1.0)


def test_an_account_tells_its_rounds_and_their_wall(ledger):
    (account,) = ledger.accounts()
    assert (account.last_budget(), account.delta()) == (None, auto_delta(1000))  # before the first
    ledger.commit(ledger.reserve("digits", "run", 1, Entry(*MECHANISM, 2), BUDGET))
    ledger.reserve("digits", "run", 2, Entry(*MECHANISM, 3), BUDGET)
    (account,) = ledger.accounts()
    assert (account.dataset, account.fingerprint, account.public_size) == ("digits", "f1", 1000)
    told = [(paid.run, paid.server_round, paid.committed) for paid in account.rounds]
    assert told == [("run", 1, True), ("run", 2, False)]
    assert account.spent() == (Entry(0.1, 1.0, 5),)
    assert account.last_budget() == NotedBudget(9.0, 1e-6, "rdp")
    assert account.delta() == 1e-6
    assert account.retired is None


ROUND = {
    "kind": "reserve",
    "run": "r",
    "round": 1,
    "sample_rate": 0.1,
    "noise_multiplier": 1.0,
    "steps": 4,
    "arithmetic": "steady-rows",
}


def written(path, **of_round):
    """A ledger with a data set and a round, as an fl_dp has written them."""
    log = EventLog.open(path, create=True)
    common = {"time": "2026-01-01T00:00:00+00:00", "dataset": "digits"}
    with log.writing():
        log.append({"kind": "register", "fingerprint": "f1", "public_size": 1000, **common})
        log.append({**ROUND, **common, **of_round})
    log.close()
    return path


def test_a_round_of_an_older_fl_dp_has_no_wall_but_is_spent(tmp_path):
    with Ledger.open(written(tmp_path / "old.sqlite")) as ledger:
        (account,) = ledger.accounts()
    assert account.spent() == (Entry.from_dict(ROUND),)
    assert account.last_budget() is None


@pytest.mark.parametrize(
    ("newer", "words"),
    [
        ({"kind": "reserve-later"}, "is a 'reserve-later'"),
        ({"arithmetic": "exact"}, "under arithmetic 'exact'"),
    ],
)
def test_what_a_newer_fl_dp_wrote_is_declined_by_name_and_stays(tmp_path, newer, words):
    path = written(tmp_path / "newer.sqlite", **newer)
    before, words = path.read_bytes(), f"entry 2 of the ledger .*{words}, .*use a newer one"
    with pytest.raises(LedgerError, match=words), Ledger.open(path) as ledger:
        ledger.reserve("digits", "run", 2, Entry(*MECHANISM, 2), BUDGET)
    with pytest.raises(ConfigError, match=words):
        read_ledger(path).accounts()
    assert path.read_bytes() == before


EDITED = {
    "an impossible steps: Input should be a valid integer": {"steps": 1.5},
    "an impossible round": {"round": "1"},
    "an impossible sample_rate: expected a number": {"sample_rate": "0.1"},
    "sample_rate=2.0": {"sample_rate": 2.0},
    "an impossible arithmetic": {"arithmetic": 7},
    "an impossible budget.delta: expected a number": {
        "budget": {"epsilon": 1.0, "delta": None, "accountant": ""}
    },
    "an impossible reserved": {"kind": "commit", "reserved": 1},
    "an impossible dataset": {"kind": "retire", "dataset": "another"},
    "an impossible public_size": {"kind": "register", "fingerprint": "f", "public_size": "9"},
    "an impossible sketch": {"kind": "register", "fingerprint": "f", "public_size": 9, "sketch": "no hex"},
    r"\['fingerprint'\] missing": {"kind": "register", "public_size": 9},
    "is a None": {"kind": None},
}


@pytest.mark.parametrize("words", EDITED)
def test_an_edited_entry_is_refused_by_file_number_and_field_before_anything_is_paid(tmp_path, words):
    path = written(tmp_path / "edited.sqlite", **EDITED[words])
    before = path.read_bytes()
    for open_it in (Ledger.open, Ledger.open_existing):
        with pytest.raises(LedgerError, match=rf"edited\.sqlite: entry 2 of the ledger.*{words}") as refused:
            open_it(path)
        assert "restore the file" in str(refused.value) or "use a newer one" in str(refused.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", ["[]", "no JSON"])
def test_a_row_that_is_no_entry_at_all_is_refused_by_its_number(tmp_path, monkeypatch, content):
    monkeypatch.setattr(event_log, "canonical", lambda entry, spaced: content)
    with pytest.raises(LedgerError, match=r"rows\.sqlite: entry 1 was edited"):
        Ledger.open(written(tmp_path / "rows.sqlite"))


def test_a_ledger_opens_whatever_accountant_it_has_noted(tmp_path):
    """One that was added by hand, or comes with a later fl_dp: its epsilons are then by the default one."""
    budget = {"epsilon": 3.0, "delta": 1e-6, "accountant": "no-such-accountant"}
    with Ledger.open(written(tmp_path / "noted.sqlite", budget=budget)) as ledger:
        accounts = ledger.accounts()
        ledger.commit(ledger.reserve("digits", "run", 1, Entry(*MECHANISM, 2), BUDGET))
    assert accounts[0].last_budget() == NotedBudget(**budget)
    (report,) = account_reports(accounts)
    assert (report.accountant, report.budget, report.delta) == ("pld", 3.0, 1e-6)
    assert report.epsilon == compute_epsilon([Entry(0.1, 1.0, 4)], 1e-6, "pld")


def test_parts_of_one_cut_are_no_kin_and_the_whole_that_follows_is_kin_to_all(ledger):
    def groups():
        return [[one.dataset for one in group] for group in lineages(ledger.accounts())]

    for part in ("a", "b"):
        ledger.register(part, f"f-{part}", 9, source="set", cut="2 parts")
    assert groups() == [["digits"], ["a"], ["b"]]
    ledger.retire("a")
    ledger.retire("b")
    ledger.register("set", "f4", 9)
    assert groups() == [["digits"], ["a", "b", "set"]]


def test_retiring_begins_a_new_account_and_keeps_the_old_one(ledger):
    ledger.commit(ledger.reserve("digits", "run", 1, Entry(*MECHANISM, 2), BUDGET))
    ledger.retire("digits")
    assert len(ledger.rows()) == 4
    assert ledger.register("digits", "f1", 900) == 900
    assert ledger.spent("digits") == ()
    old, new = ledger.accounts()
    assert old.retired is not None
    assert total_steps(old.spent()) == 2
    assert new.retired is None


def test_nothing_of_before_a_retirement_is_used_after_it(ledger):
    reservation = ledger.reserve("digits", "run", 1, Entry(*MECHANISM, 2), BUDGET)
    ledger.retire("digits")
    for use in (
        lambda: ledger.spent("digits"),
        lambda: ledger.retire("digits"),
        lambda: ledger.reserve("digits", "run", 2, Entry(*MECHANISM, 1), BUDGET),
    ):
        with pytest.raises(LedgerError, match="digits is not registered"):
            use()
    ledger.register("digits", "f1", 1000)
    with pytest.raises(LedgerError, match="not open to be committed"):
        ledger.commit(reservation)  # its result does not leave
    with pytest.raises(DeclinedError, match="already taken"):
        ledger.reserve("digits", "run", 1, Entry(*MECHANISM, 2), BUDGET)


def test_retired_names_and_contents_are_free_but_remembered(ledger):
    ledger.register("other", "g1", 5)
    ledger.retire("digits")
    ledger.register("digits", "f2", 1000)  # the name, with other contents
    ledger.register("copy", "f1", 1000)  # the contents, under another name
    groups = lineages(ledger.accounts())
    assert sorted([(one.dataset, one.fingerprint) for one in group] for group in groups) == [
        [("digits", "f1"), ("digits", "f2"), ("copy", "f1")],
        [("other", "g1")],
    ]


def test_what_was_paid_for_is_as_sure_as_the_weakest_of_its_rounds(ledger):
    def reserve(server_round, arithmetic):
        entry = Entry(*MECHANISM, 2)
        ledger.reserve_all(
            [ReservationRequest("digits", "run", server_round, entry, BUDGET, arithmetic=arithmetic)]
        )
        return ledger.arithmetics(["digits"]), account_reports(ledger.accounts())[0].arithmetic

    assert ledger.arithmetics(["digits"]) == ["proven"]  # of nothing
    assert reserve(1, "proven") == (["proven"], "proven")
    assert reserve(2, "steady-rows") == (["steady-rows"], "steady-rows")
    assert reserve(3, "proven") == (["steady-rows"], "steady-rows")
    assert [paid.arithmetic for paid in ledger.accounts()[0].rounds] == ["proven", "steady-rows", "proven"]
    ledger.retire("digits")  # which makes nothing proven: the total is as sure as what the old one has spent
    ledger.register("digits", "f1", 1000)
    reserve(4, "proven")
    old, new = account_reports(ledger.accounts())
    assert (old.arithmetic, new.arithmetic) == ("steady-rows", "steady-rows")
    assert new.total.epsilon > new.epsilon
