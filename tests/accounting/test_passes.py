"""Passes of random allocation in entries, budgets and ledgers: only whole ones, and never taken for steps."""

import json

import pytest

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.calibration import calibrate_noise
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.accounting.events import beyond, merge
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.errors import BudgetExhaustedError, ConfigError, DeclinedError
from fl_dp.federation.client.one_mechanism import OneMechanismBudget
from fl_dp.federation.server.client_record import ClientRecord, client_of, covered
from fl_dp.federation.server.history import History
from fl_dp.records import ClientProfile, Entry
from fl_dp.verify import claims

PASSES, STEPS = Entry(0.25, 2.0, 12, pass_steps=4), Entry(0.25, 2.0, 12)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"steps": 13}, "a multiple of pass_steps=4"),
        ({"sample_rate": 0.3}, "to be 1 / 4"),
        ({"noise_multiplier": 0.0}, "passes with noise"),
        ({"shares": 2}, "outside of secure sums"),
        ({"copies": 2}, "outside of secure sums"),
        *(({"pass_steps": wrong}, "an integer from 1 to 100000") for wrong in (0, 4.0, True, 100_001)),
    ],
)
def test_an_entry_is_of_whole_passes(fields, words):
    with pytest.raises(ConfigError, match=words):
        Entry(**{"sample_rate": 0.25, "noise_multiplier": 2.0, "steps": 12, "pass_steps": 4} | fields)


def test_no_place_takes_passes_for_steps():
    both = (PASSES, STEPS)
    for merged in (merge, claims.merged):
        assert merged((*both, *both)) == tuple(sorted(one.taking(24) for one in both))
    assert beyond(both, [STEPS]) == (PASSES,)
    assert covered([PASSES], both) == (PASSES,)
    assert claims.missing((STEPS,), tuple(sorted(both))) == (PASSES,)
    assert Entry.from_dict(json.loads(json.dumps(PASSES.to_dict()))) == PASSES
    assert claims.charges([one.to_dict() for one in both]) == tuple(sorted(both))
    assert "pass_steps" not in STEPS.to_dict()
    record = ClientRecord(ClientProfile("a", 640, 3.0, 1e-5, both, "pld"), 1, both, PASSES, before=(STEPS,))
    assert client_of(json.loads(record.row)) == record


def test_a_budget_pays_for_whole_passes():
    budget = Budget(2.0, 1e-5)
    fitting = budget.steps_that_fit(PASSES.taking(4000), ())
    assert fitting % 4 == 0
    within, beyond_it = (budget.epsilon_of([PASSES.taking(steps)]) for steps in (fitting, fitting + 4))
    assert within <= 2.0 < beyond_it
    assert History(budget, PASSES, (PASSES.taking(fitting - 4),)).steps_left(12) == 4
    assert History(budget, PASSES, (PASSES.taking(fitting),)).rounds_left(5) == 0


def test_noise_is_calibrated_for_passes():
    noise = calibrate_noise(1 / 11, 99, 3.0, 1e-5, pass_steps=11)
    assert noise < calibrate_noise(1 / 11, 99, 3.0, 1e-5)
    for multiplier, within in ((noise, True), (0.998 * noise, False)):
        entry = Entry(1 / 11, multiplier, 99, pass_steps=11)
        assert (compute_epsilon([entry], 1e-5) <= 3.0) is within


def test_an_account_keeps_to_one_scheme():
    budget = OneMechanismBudget(3.0, 1e-5)
    assert budget.steps_that_fit(PASSES, (PASSES,)) == 12
    for planned, held in ((PASSES, STEPS), (STEPS, PASSES), (Entry(0.2, 2.0, 10, pass_steps=5), PASSES)):
        with pytest.raises(DeclinedError, match=r"passes of 4 steps with noise multiplier 2 \(allocation\)"):
            budget.steps_that_fit(planned, (held,))


def test_a_ledger_notes_passes_under_a_kind_of_their_own(tmp_path):
    """An older fl_dp would take their cost for that of Poisson steps, which may be less."""
    path, budget = tmp_path / "l.sqlite", Budget(1.2, 1e-5)
    with Ledger.open(path) as ledger:
        ledger.register("data", "print", 100)
        paid = ledger.reserve("data", "run", 1, PASSES.taking(400), budget)
        assert 4 <= paid.entry.steps < 400
        assert paid.entry.steps % 4 == 0
        with pytest.raises(BudgetExhaustedError):
            ledger.reserve("data", "run", 2, PASSES, budget)
        assert json.loads(ledger.rows()[-1].content)["kind"] == "reserve-passes"
    with Ledger.open(path) as ledger:
        assert ledger.spent("data") == (paid.entry,)
