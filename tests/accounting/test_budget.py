"""Budgets: delta by one rule for all, a client's wall, and what the federation guarantees."""

import subprocess
import sys
from math import inf, nan

import pytest

from fl_dp.accounting.budget import Budget, auto_delta, federation_budget
from fl_dp.accounting.epsilon import in_digits
from fl_dp.errors import ConfigError
from fl_dp.records import Entry

GUARANTEES = [(1.0, 1e-5), (3.0, 1e-6), (2.0, 1e-5), (0.5, 1e-6)]


@pytest.mark.parametrize(
    ("public_size", "delta"),
    [(1, 1e-5), (1437, 1e-5), (99_999, 1e-5), (100_000, 1e-6), (100_001, 1e-6), (60_000_000, 1e-8)],
)
def test_auto_delta_is_the_largest_power_of_ten_below_one_over_n(public_size, delta):
    assert auto_delta(public_size) == delta
    power = round(1 / delta)
    assert power > public_size
    assert power == 10**5 or power // 10 <= public_size


@pytest.mark.parametrize(
    ("refused", "words"),
    [
        (lambda: auto_delta(0), "public_size=0"),
        (lambda: auto_delta(10**4000), "public_size of at most 1e"),
        *(
            (lambda args=args: Budget(*args), "Expected")
            for args in [(0.0, 1e-5), (inf, 1e-5), (1.0, 0.0), (1.0, 1.0)]
        ),
        *(
            (lambda wall=wall: Budget(3.0, 1e-5, "rdp", wall), "epsilon_alone")
            for wall in (0.0, -1.0, inf, nan)
        ),
        (lambda: Budget(3.0, 1e-5, "no-such-accountant"), "'no-such-accountant': expected "),
        (lambda: federation_budget([]), "at least one client"),
    ],
)
def test_what_bounds_nothing_is_refused(refused, words):
    """Only an accountant that is a proven upper bound holds a budget."""
    with pytest.raises(ConfigError, match=words):
        refused()


@pytest.mark.parametrize("budget", [(1e-3, 1e-12), (0.5, 0.5), (1e6, 0.999)])
def test_a_budget_may_be_small_or_large(budget):
    assert (Budget(*budget).epsilon, Budget(*budget).delta) == budget


def test_a_budget_says_in_words_what_is_spent_and_by_whom():
    spent = [Entry(0.1, 2.0, 10)]
    budget = Budget(3.0, 1e-5, "rdp")
    words = f"epsilon {in_digits(budget.epsilon_of(spent), 5)} of 3 is spent at delta 1e-05, by rdp"
    assert budget.in_words(spent) == words


def test_clients_compose_in_parallel():
    report = federation_budget(GUARANTEES)
    assert (report.epsilon, report.delta) == (3.0, 1e-5)
    assert (report.largest, report.median, report.least) == (3.0, 1.5, 0.5)


def test_importing_the_budget_is_cheap():
    """Of an accountant, too: torch, Opacus and the like are loaded when they are asked."""
    code = (
        "import sys, fl_dp.accounting.ledger.ledger, fl_dp.accounting.accountants.pld; "
        "print({'torch', 'opacus', 'scipy', 'dp_accounting'} & sys.modules.keys())"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "set()\n"
