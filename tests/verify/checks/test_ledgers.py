"""Ledgers that are handed over: sound, committed to, and with what was really paid."""

import json
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from verify.made_run import BUDGET, DELTA, NOISE, RATE, SIZE, STEPS, Json, MadeRun, charges, epsilon, signed

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.ledger.export import to_export
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.records import Entry
from fl_dp.statements import Statement, commitment
from fl_dp.verify.check import Finding, Outcome
from fl_dp.verify.claims import shown


@pytest.fixture
def own(made_run: MadeRun, tmp_path: Path) -> MadeRun:
    """With a copy of north's ledger alone, to be changed."""
    shutil.copytree(made_run.ledgers["north"].parent, tmp_path / "ledger")
    made_run.ledgers = {"north": tmp_path / "ledger" / "ledger.sqlite"}
    return made_run


def words(run: MadeRun) -> str:
    return run.words("ledgers", ledgers=True)


def found_in(run: MadeRun) -> tuple[Finding, ...]:
    return run.check(ledgers=True)["ledgers"].findings


def pay(own: MadeRun, run: str, server_round: int, steps: int = STEPS, data: str = "north's data") -> None:
    with Ledger.open(own.ledgers["north"]) as ledger:
        ledger.reserve(data, run, server_round, Entry(RATE, NOISE, steps), Budget(BUDGET, DELTA))


def test_one_of_two_ledgers_is_checked_and_the_other_is_missed(own: MadeRun) -> None:
    assert words(own) == ""
    findings = found_in(own)
    assert [one.what for one in findings if one.outcome is Outcome.NOT_GIVEN] == [
        "what opens the commitment of client south"
    ]
    assert "1 commitment opened" in findings[-1].what
    assert findings[-1].what.endswith("the charges of 1 of 2 clients are those that were paid")


def test_a_ledger_that_has_grown_since_still_opens(own: MadeRun) -> None:
    pay(own, "another run", 1, 3)
    assert words(own) == ""


def test_an_export_is_as_good(own: MadeRun) -> None:
    with Ledger.open_existing(own.ledgers["north"]) as ledger:
        rows = ledger.rows()
    path = own.ledgers["north"].parent / "export.json"
    path.write_text(json.dumps(to_export(rows)))
    own.ledgers = {"north": path}
    assert words(own) == ""
    path.write_text(path.read_text().replace('\\"steps\\": 20', '\\"steps\\": 10'))
    assert "its chain is broken" in words(own)


def test_reading_a_ledger_changes_nothing(own: MadeRun) -> None:
    path = own.ledgers["north"]
    before = path.read_bytes(), sorted(path.parent.iterdir())
    assert words(own) == ""
    assert (path.read_bytes(), sorted(path.parent.iterdir())) == before


def test_an_edited_entry_breaks_the_chain(own: MadeRun) -> None:
    connection = sqlite3.connect(own.ledgers["north"])
    connection.execute("DROP TRIGGER events_stay")
    connection.execute(
        "UPDATE events SET content = replace(content, '\"steps\": 20', '\"steps\": 10') WHERE id = 2"
    )
    connection.commit()
    connection.close()
    assert "entry 2 was edited" in words(own)


def test_another_salt_opens_nothing(own: MadeRun) -> None:
    path = own.ledgers["north"].parent / "statements.jsonl"
    line = json.loads(path.read_text())
    path.write_text(json.dumps({**line, "salt": "00" * 32}) + "\n")
    assert "the commitment does not match this salt and head" in words(own)


def test_a_ledger_that_was_written_anew_has_another_head(own: MadeRun) -> None:
    """Whole and sound, with fewer steps: its head is not the one that was committed to."""
    path = own.ledgers["north"]
    path.unlink()
    with Ledger.open(path) as ledger:
        ledger.register("north's data", "north", 640)
        ledger.reserve("north's data", "7001", 1, Entry(RATE, NOISE, STEPS), Budget(BUDGET, DELTA))
    assert "the head that was committed to is not an entry of this ledger" in words(own)
    assert "north's data has paid for 20 steps" in words(own)


@pytest.mark.parametrize("by_itself", [True, False])
def test_a_ledger_that_was_made_for_one_run_says_so_in_every_entry(by_itself: bool, own: MadeRun) -> None:
    """North states that its ledger was; without the words in its entries another run may have paid there."""
    path, budget, salt = own.ledgers["north"], Budget(BUDGET, DELTA), bytes(32)
    path.unlink()
    for number in (1, 2, 3):
        with Ledger.open(path, one_run=by_itself or number != 2) as ledger:
            ledger.register("north's data", "north", SIZE)
            ledger.commit(ledger.reserve("north's data", "7001", number, Entry(RATE, NOISE, STEPS), budget))
            head = ledger.head()
    said = Statement.from_text(own.statements()[0]["text"])
    said = replace(said, commitment=commitment(salt, head), one_run_ledger=True)
    opening = {"commitment": said.commitment, "salt": salt.hex(), "head": head}
    (path.parent / "statements.jsonl").write_text(json.dumps(opening) + "\n")
    new = signed(said, own.key("north"))
    own.write_statements([{"text": new.text, "key": new.key, "signature": new.signature}])
    told = "states that its ledger was made for this run alone, and not all entries of the ledger say so"
    assert words(own) == ("" if by_itself else f"{told} (statements.json, statement 1)")


@pytest.mark.parametrize("accounts", [1, 2])
def test_what_is_stated_was_held_by_an_account_each(accounts: int, own: MadeRun) -> None:
    """Committed to is a ledger of one account that has paid 60 steps. It stands for one client."""
    said = Statement.from_text(own.statements()[0]["text"])
    less = replace(said.accounts[0], spent=charges(2 * STEPS), epsilon=epsilon(2 * STEPS))
    both = (said.accounts[0], replace(said.accounts[0], client="south"))
    new = signed(replace(said, accounts=(less,) if accounts == 1 else both), own.key("north"))
    own.write_statements([{"text": new.text, "key": new.key, "signature": new.signature}])
    who = "north" if accounts == 1 else "south"
    assert f"client {who} states charges that no account of the ledger had then" in words(own)


def test_a_ledger_of_other_runs_says_nothing_of_this_one(own: MadeRun) -> None:
    own.change_summary(lambda summary: summary.update(run="7002"))
    own.files.statements.unlink()
    assert words(own) == ""
    found = {one.outcome: one.what for one in found_in(own)}
    assert found[Outcome.NOT_GIVEN] == "what was paid for this run: no account of these ledgers shows any"
    assert "paid" not in found[Outcome.AGREES]


def count(own: MadeRun, steps: int, status: str) -> None:
    """The server counts so many steps of north's, which has paid for 3 * STEPS."""
    entry = {"sample_rate": RATE, "noise_multiplier": NOISE, "steps": steps}
    own.change_client(charges=[entry], status=status)


MORE = 3 * STEPS + 10


def test_a_round_that_was_never_answered_is_counted_and_need_not_be_paid(own: MadeRun) -> None:
    count(own, MORE, "failed")
    assert words(own) == ""
    assert own.notes("ledgers", ledgers=True) == [
        "client north is counted with more than north's data has paid for"
    ]


def test_else_a_ledger_that_holds_less_is_not_the_one(own: MadeRun) -> None:
    count(own, MORE, "trained")
    assert "north's data has paid for 60 steps" in words(own)


def test_what_another_run_has_paid_since_may_be_counted(own: MadeRun) -> None:
    """It registered again before this run ended, and was asked for nothing more."""
    pay(own, "another run", 1, 10)
    count(own, MORE, "idle")
    assert words(own) == ""


def test_what_was_paid_for_this_run_cannot_be_what_was_spent_before(own: MadeRun) -> None:
    """The total is what the site has signed; only its ledger says which run paid."""
    part = [{"sample_rate": RATE, "noise_multiplier": NOISE, "steps": STEPS}]
    own.change_client(this_run={"charges": part, "epsilon": epsilon(STEPS)}, before=part)
    assert "north's data has paid for 40 steps of this run that count here as spent before" in words(own)


def test_a_client_that_failed_is_counted_with_all_that_it_paid(own: MadeRun) -> None:
    count(own, 2 * STEPS, "failed")
    own.change_client("south", charges=[])
    assert "north's data has paid for 60 steps" in words(own)


def test_a_killed_run_is_compared_by_its_last_line(own: MadeRun) -> None:
    pay(own, "another run", 9)
    own.files.summary.unlink()
    findings = found_in(own)
    assert "north's data has paid what client north has spent by the last line" in findings[1].what
    assert "the charges of client south in the last line" in findings[2].what
    assert findings[-1].what.endswith("opened")


def test_what_was_paid_for_a_round_without_a_line_is_told(own: MadeRun) -> None:
    pay(own, "7001", 4)  # 11 steps fit its budget
    own.files.summary.unlink()
    (note,) = own.notes("ledgers", ledgers=True)
    assert note.startswith("north's data has paid for 11 steps more than client north has in the last line")
    assert "for round 4: together epsilon 2.98" in note
    assert f"at delta 1e-05, and the line says {shown(epsilon(3 * STEPS))}" in note


def tell_last(own: MadeRun, **steps: int) -> None:
    """The last line says that these clients have spent so much, and nothing of how; there is no summary."""

    def tell(line: Json) -> None:
        for name, spent in steps.items() if line["round"] == 3 else ():
            entry = {"sample_rate": RATE, "noise_multiplier": NOISE, "steps": spent}
            line["clients"][name].update(
                charges=[entry], steps=spent, epsilon=epsilon(spent), status="declined", reported={}
            )

    own.change_rounds(tell)
    own.files.summary.unlink()


def test_what_was_paid_for_a_round_with_a_line_is_missing_there(own: MadeRun) -> None:
    """A forger who takes the summary away, and a round out of the lines."""
    tell_last(own, north=2 * STEPS)
    assert "north's data has paid for 20 steps more" in words(own)
    assert "for round 3" in words(own)


def add_account(own: MadeRun, rounds: int) -> None:
    with Ledger.open(own.ledgers["north"]) as ledger:
        ledger.register("more data", "f2", SIZE)
    for server_round in range(1, rounds + 1):
        pay(own, "7001", server_round, data="more data")


@pytest.mark.parametrize("both", [False, True])
def test_a_client_that_missed_a_round_is_not_taken_for_one_that_did_not(both: bool, own: MadeRun) -> None:
    """The ledger's first account once held what the first client holds, and is the second's."""
    tell_last(own, north=2 * STEPS, south=3 * STEPS)
    if both:
        add_account(own, 2)
    findings = found_in(own)
    assert words(own) == ""
    assert "north's data has paid what client south has spent by the last line" in findings[1].what
    assert findings[2].outcome is (Outcome.AGREES if both else Outcome.NOT_GIVEN)
    assert "client north" in findings[2].what


def test_of_two_equal_clients_one_has_begun_another_round(own: MadeRun) -> None:
    pay(own, "7001", 4)
    add_account(own, 3)
    tell_last(own, south=3 * STEPS)
    findings = found_in(own)
    assert "more data has paid what client north has spent by the last line" in findings[1].what
    assert findings[2].what.startswith("north's data has paid for 11 steps more than client south")
    assert findings[2].outcome is Outcome.NOTE
    assert words(own) == ""


def test_a_killed_run_without_a_line_has_nothing_to_compare(own: MadeRun) -> None:
    own.files.rounds.write_text("")
    own.files.summary.unlink()
    found = {one.outcome: one.what for one in found_in(own)}
    assert found[Outcome.NOT_GIVEN] == "summary.json or a line of rounds.jsonl"


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0", b"{", b'{"rows": 1}', b"{}" * 9])
def test_what_is_no_ledger_is_a_finding(content: bytes, own: MadeRun) -> None:
    own.ledgers["north"].write_bytes(content)
    assert words(own) != ""
