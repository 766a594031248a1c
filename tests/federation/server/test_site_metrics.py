"""What is reported of a site's account of test records, if the site was not heard."""

import math
from dataclasses import replace

import pytest

from fl_dp.accounting.budget import Budget
from fl_dp.config.run import RunConfig
from fl_dp.federation.server.client_record import AccountOfTests, ClientRecord
from fl_dp.federation.server.registration import Registration
from fl_dp.federation.server.site_metrics import SiteEvaluations
from fl_dp.records import ClientProfile, Entry

PROFILE = ClientProfile("a", 640, 3.0, 1e-7, (), "pld", evaluate_epsilon=4.0)
LIMIT = Budget(2.0, 1e-5, "rdp")
ONE = Entry(1.0, 6.0, 1)
IN_A_SUM = Entry(1.0, 6.0, 1, 4)  # paid under fl_dp 1.0


@pytest.mark.parametrize(
    ("unheard", "shown", "charges"),
    [
        (0, (ONE.taking(2),), (ONE.taking(2),)),
        (1, (ONE.taking(2),), (ONE.taking(3),)),
        (900, (ONE.taking(2),), (ONE.taking(7),)),  # as many as the budget pays for
        (1, (IN_A_SUM,), (ONE, IN_A_SUM)),
    ],
)
def test_the_account_is_the_shown_charges_and_all_possible_ones_since(unheard, shown, charges):
    line = AccountOfTests(LIMIT, shown, unheard).line(PROFILE, "evaluated", "")
    assert line.unheard == unheard
    assert line.charges == charges
    assert line.epsilon == LIMIT.epsilon_of(charges) <= line.budget == LIMIT.epsilon
    alone = LIMIT.epsilon_alone_of(charges) if IN_A_SUM in charges else None
    assert line.epsilon_alone == alone


@pytest.mark.parametrize(
    ("allowed", "limit", "alone"), [(False, 9.0, None), (True, 9.0, 9.0), (True, 0.0, math.inf)]
)
def test_of_a_site_that_has_shown_nothing_it_is_the_whole_budget(allowed, limit, alone):
    """What it had paid in earlier runs, with which noise, and whether into sums, is not known."""
    profile = replace(PROFILE, allow_secure_sum=allowed, epsilon_alone=limit)
    line = AccountOfTests(unheard=1).line(profile, "failed", "")
    assert (line.epsilon, line.epsilon_alone, line.budget) == (4.0, alone, 4.0)
    assert line.delta == 1e-5  # "auto" may give fewer test records a larger one


def known(config: RunConfig, profile: ClientProfile, tests: AccountOfTests | None = None) -> Registration:
    registration = Registration(config)
    registration.update(ClientRecord(profile, 1, (), None, tests=tests))
    return registration


@pytest.mark.parametrize("profile", [PROFILE, replace(PROFILE, evaluate_epsilon=0.0)])
def test_a_resumed_run_counts_the_evaluation_that_it_was_ended_in(profile):
    """Also of a site that declared no test records when it registered, and showed an account later."""
    config = RunConfig(rounds=3, site_metrics=True)
    sites = SiteEvaluations(config, "run-1", known(config, profile, AccountOfTests(LIMIT, (ONE,))))
    sites.count_interrupted(3, 3)
    line = sites.accounts().sites["a"]
    assert line.unheard == 1
    assert line.taken == 2


def test_a_declined_evaluation_is_not_paid():
    config = RunConfig(site_metrics=True)
    registration = known(config, PROFILE)
    sites = SiteEvaluations(config, "run-1", registration)
    sites._begin("a")
    before = registration.clients["a"]
    sites._begin("a")
    sites._answered["a"] = "declined", "no"
    sites._settle("a", {})
    assert registration.clients["a"].tests == before.tests == AccountOfTests(unheard=1)
    sites._answered["a"] = "declined", "no"
    sites._settle("a", {})
    assert registration.clients["a"].tests is None
    assert before.tests  # a state that holds it stays as it was
