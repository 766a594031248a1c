"""Ledgers as 1.0.0 wrote them, `tests/samples/ledgers`: which go on, with which epsilon, and which do not."""

import json
import shutil
from pathlib import Path

import pytest

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.ledger.accounts import Account
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.errors import DeclinedError, LedgerError
from fl_dp.reporting.ledger_report import account_reports

SAMPLES = Path(__file__).parents[2] / "samples" / "ledgers"
EXPECTED = json.loads((SAMPLES / "expected.json").read_text())


def the_copy(name: str, folder: Path) -> Path:
    return Path(shutil.copy(SAMPLES / f"{name}.sqlite", folder / "ledger.sqlite"))


def after_two_steps(ledger: Ledger, account: Account) -> float:
    """What the account has spent after two more steps of its last round's mechanism."""
    last = account.rounds[-1]
    assert last.budget is not None
    wider = Budget(last.budget.epsilon + 1.0, last.budget.delta, last.budget.accountant)
    ledger.commit(ledger.reserve(account.dataset, "a new run", 1, last.entry.taking(2), wider))
    return wider.epsilon_of(ledger.spent(account.dataset))


@pytest.mark.parametrize("name", EXPECTED["goes on"])
def test_what_was_paid_for_costs_as_much_and_goes_on(name, tmp_path):
    found = []
    with Ledger.open_existing(the_copy(name, tmp_path)) as ledger:
        for account, report in zip(ledger.accounts(), account_reports(ledger.accounts()), strict=True):
            numbers = {"epsilon": report.epsilon, "total": report.total.epsilon}
            if report.epsilon_alone is not None:
                numbers["alone"] = report.epsilon_alone
            if account.rounds and account.retired is None and account.private:
                numbers["after two steps"] = after_two_steps(ledger, account)
            found.append({"dataset": account.dataset, **numbers})
    assert len(found) == len(EXPECTED["goes on"][name])
    for one, then in zip(found, EXPECTED["goes on"][name], strict=True):
        assert one.pop("dataset") == then["dataset"]
        assert one == pytest.approx({key: float(then[key]) for key in then if key != "dataset"}, rel=1e-5)


def test_data_that_were_trained_without_protection_stay_so(tmp_path):
    with Ledger.open_existing(the_copy("unprotected", tmp_path)) as ledger:
        first, unprotected = (paid.entry for paid in ledger.accounts()[0].rounds)
        with pytest.raises(DeclinedError, match="trained without protection in run run-2"):
            ledger.reserve("open", "a new run", 1, first, Budget(3.0, 1e-5))
        ledger.commit(ledger.reserve("open", "a new run", 1, unprotected, None))


REFUSED = {
    "passes": "paid for passes of random allocation",
    "list": "is a list of noise multipliers that its account keeps to",
    "copies": "paid for sums in which a person may have records at several clients",
    "no-arithmetic": "paid for steps under an assumption about rounding that has since been refuted",
    "assumed": "paid for steps under an assumption about rounding that has since been refuted",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_accounted_for_any_more_is_refused_before_anything_is_paid(name, tmp_path):
    path, entry = the_copy(name, tmp_path), EXPECTED["refused by 2.0.0"][name]["entry"]
    before = path.read_bytes()
    words = f"entry {entry} of the ledger {REFUSED[name]}, .* start another ledger elsewhere"
    for open_it in (Ledger.open, Ledger.open_existing):
        with pytest.raises(LedgerError, match=words), open_it(path) as ledger:
            ledger.register("more", "f", 100)
    assert path.read_bytes() == before
