"""The ledger's benchmark measures a ledger that can be read."""

from benchmarks.ledger import ledger_rates
from fl_dp.accounting.ledger.ledger import Ledger


def test_rates_are_of_a_sound_ledger_with_all_rounds_in_it(tmp_path):
    rates = ledger_rates(tmp_path, rounds=5, repeat=3)
    assert rates.keys() == {"open", "spent", "round", "message"}
    assert min(rates.values()) > 0
    with Ledger.open(tmp_path / "ledger-5.sqlite") as ledger:
        assert ledger.spent("data")[0].steps == 5 + 3 + 3
        assert all(paid.committed for account in ledger.accounts() for paid in account.rounds)
