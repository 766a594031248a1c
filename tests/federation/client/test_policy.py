"""A server cannot talk a client out of its privacy."""

import math
from dataclasses import replace

import pytest

from fl_dp.config.client import ClientConfig
from fl_dp.errors import DeclinedError
from fl_dp.federation.client.policy import MAX_STEPS, check_plan
from fl_dp.records import MOST_BATCH, RoundPlan

CONFIG = ClientConfig(client="0", ledger="x.sqlite", min_noise_multiplier=1.0, max_grad_norm=1.5)
PLAN = RoundPlan("run-1", 1, "linear", 10, 64, 0.5, 0.0, 1.0, 1.5)


def test_a_plan_at_the_limits_is_accepted():
    check_plan(PLAN, CONFIG, public_size=64)
    check_plan(replace(PLAN, steps=MAX_STEPS, momentum=0.99), CONFIG, public_size=64)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"noise_multiplier": 0.5}, "asks for noise multiplier 0.5, this client's least is 1"),
        ({"noise_multiplier": 0.0}, "noise multiplier 0"),
        ({"noise_multiplier": -1.0}, "noise multiplier -1"),
        ({"noise_multiplier": math.nan}, "noise multiplier nan"),
        ({"noise_multiplier": math.inf}, "noise multiplier inf"),
        ({"max_grad_norm": 2.0}, "asks for clipping bound 2, this client's largest is 1.5"),
        ({"max_grad_norm": 0.0}, "clipping bound 0"),
        ({"max_grad_norm": math.nan}, "clipping bound nan"),
        ({"expected_batch_size": 65}, "expected batch size of 65, this client declares 64 records"),
        ({"expected_batch_size": 0}, "expected batch size of 0"),
        ({"steps": 0}, "asks for 0 steps"),
        ({"steps": -3}, "asks for -3 steps"),
        ({"steps": MAX_STEPS + 1}, "steps"),
        ({"learning_rate": math.nan}, "learning rate nan"),
        ({"learning_rate": math.inf}, "learning rate inf"),
        ({"learning_rate": 0.0}, "learning rate 0"),
        ({"momentum": 1.0}, "momentum 1"),
        ({"momentum": -0.1}, "momentum -0.1"),
        ({"momentum": math.nan}, "momentum nan"),
        ({"server_round": 0}, "round 0"),
        ({"arithmetic": "certain"}, "asks for arithmetic 'certain', expected assumed or proven"),
        (
            {"unit": "person, first 8 records"},
            "asks for unit 'person, first 8 records', this client's own settings have 'record'",
        ),
        ({"local_algorithm": "own"}, "local algorithm 'own', expected .*fedavg or .*scaffold"),
        ({"local_algorithm": "mr_mtl"}, "local algorithm 'mr_mtl'"),
        ({"pull": -0.1}, "pull -0.1"),
        ({"pull": math.nan}, "pull nan"),
        ({"pull": 2e6}, r"pull 2e\+06, expected 0 to 1e\+06"),
        ({"personal": "head.*"}, "personal 'head.*', this client's own settings have none of its own"),
        ({"personal": " "}, "personal ' '"),
        ({"origin": "x" * 65}, "names a run in more than 64"),
        ({"run": ""}, "name of its run"),
        ({"run": "x" * 65}, "names a run in more than 64"),
        ({"run": "a\x1b[2J"}, "names a run in more than 64"),
    ],
)
def test_what_a_client_will_not_do_is_declined_with_the_reason(changes, words):
    with pytest.raises(DeclinedError, match=words):
        check_plan(replace(PLAN, **changes), CONFIG, public_size=64)


def test_a_batch_whose_rounding_is_not_paid_for_is_declined():
    check_plan(replace(PLAN, expected_batch_size=MOST_BATCH), CONFIG, public_size=2**30)
    with pytest.raises(DeclinedError, match="expected batch size of 1048577, expected at most 1048576"):
        check_plan(replace(PLAN, expected_batch_size=MOST_BATCH + 1), CONFIG, public_size=2**30)


def test_without_limits_of_its_own_noise_must_still_be_there():
    free = ClientConfig(client="0", ledger="x.sqlite")
    check_plan(replace(PLAN, max_grad_norm=1e6, noise_multiplier=0.01), free, public_size=64)
    for bound in (1e-45, 1e-13, 1e13, 3e38):
        with pytest.raises(DeclinedError, match=r"clipping bound .* expected 1e-12 to 1e\+12"):
            check_plan(replace(PLAN, max_grad_norm=bound), free, public_size=64)
    for noise in (1e-300, 1e-4, 1e7):
        with pytest.raises(DeclinedError, match=r"noise multiplier .* expected 0.001 to 1e\+06"):
            check_plan(replace(PLAN, noise_multiplier=noise), free, public_size=64)
    with pytest.raises(DeclinedError):
        check_plan(replace(PLAN, noise_multiplier=0.0), free, public_size=64)
    with pytest.raises(DeclinedError, match="clipping bound inf"):
        check_plan(replace(PLAN, max_grad_norm=math.inf), free, public_size=64)


def test_who_wants_proven_arithmetic_takes_part_in_nothing_else():
    strict = replace(CONFIG, arithmetic="proven")
    check_plan(replace(PLAN, arithmetic="proven"), strict, public_size=64)
    check_plan(replace(PLAN, arithmetic="proven"), CONFIG, public_size=64)
    with pytest.raises(DeclinedError, match="asks for arithmetic 'assumed', this client's operator"):
        check_plan(PLAN, strict, public_size=64)


def test_what_is_trained_must_be_the_clients_own_choice():
    own = replace(CONFIG, trainable="head.*")
    with pytest.raises(DeclinedError, match=r"asks for training of 'body\.\*', .* settings have 'head\.\*'"):
        check_plan(replace(PLAN, trained="body.*"), own, public_size=64)
    with pytest.raises(DeclinedError, match=r"asks for training of none of its own"):
        check_plan(PLAN, own, public_size=64)
    check_plan(replace(PLAN, trained=own.trained), own, public_size=64)


def test_a_model_by_a_path_is_compared_without_it():
    check_plan(replace(PLAN, model="make"), replace(CONFIG, model="/here/mine.py:make"), public_size=64)
    with pytest.raises(DeclinedError, match=r"asks for model 'other', .* settings have 'make'"):
        check_plan(replace(PLAN, model="other"), replace(CONFIG, model="mine.py:make"), public_size=64)


FOLLOWING = replace(PLAN, max_grad_norm=0.0015, adaptive_clipping="quantile:0.5")


def test_a_bound_that_follows_is_accepted_where_all_of_its_reach_is():
    check_plan(FOLLOWING, CONFIG, public_size=64)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"max_grad_norm": 0.0016}, "bound that may move from 1.6e-06 to 1.6, expected 1e-12 to 1.5"),
        ({"max_grad_norm": 1e-10}, "may move from 1e-13"),
        ({"adaptive_clipping": "quantile:2"}, "adaptive-clipping = 'quantile:2': expected quantile:SHARE"),
        ({"adaptive_clipping": "x" * 10**6}, "adaptive-clipping = 'xxx"),
        ({"expected_batch_size": 3}, "an expected batch of 3 is too small beside noise multiplier 1"),
        (
            {"local_algorithm": "scaffold"},
            "adaptive clipping and local algorithm 'scaffold': control variates",
        ),
    ],
)
def test_a_bound_that_follows_too_far_or_costs_too_much_is_declined(changes, words):
    with pytest.raises(DeclinedError, match=words):
        check_plan(replace(FOLLOWING, **changes), CONFIG, public_size=64)


def test_without_protection_no_bound_follows():
    free = replace(CONFIG, allow_unprotected=True)
    with pytest.raises(DeclinedError, match="without protection and for adaptive clipping"):
        check_plan(replace(FOLLOWING, private=False, noise_multiplier=0.0), free, public_size=64)


SUMS = replace(CONFIG, allow_secure_sum=True, clients_per_person=2)
OF_SUM = replace(PLAN, steps=1, noise_multiplier=4.0, shares=4, copies=2, most_rate=1.0)


def test_a_step_into_a_secure_sum_is_accepted():
    check_plan(OF_SUM, SUMS, public_size=64)
    check_plan(replace(OF_SUM, copies=3), SUMS, public_size=64)
    check_plan(replace(OF_SUM, copies=1, most_rate=0.0), replace(SUMS, clients_per_person=1), public_size=64)
    check_plan(OF_SUM, replace(SUMS, min_share_multiplier=2.0), public_size=64)  # 4 / sqrt(4)
    check_plan(replace(OF_SUM, most_rate=0.5), SUMS, public_size=128)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"steps": 2}, "asks for 2 steps into a secure sum, which takes one"),
        ({"optimizer": "adam"}, "asks for optimizer 'adam' in a secure sum, expected 'sgd'"),
        ({"momentum": 0.9}, "asks for momentum 0.9 in a secure sum"),
        ({"local_algorithm": "fedprox"}, "asks for local algorithm 'fedprox' in a secure sum"),
        ({"adaptive_clipping": "quantile:0.5"}, "asks for adaptive clipping 'quantile:0.5' in a secure sum"),
        ({"shares": 101}, "asks for a share in 101, expected 1 to 100"),
        ({"copies": 1}, "persons at 1 clients, this client's own settings have clients-per-person = 2"),
        ({"copies": 101}, "persons at 101 clients"),
        ({"expected_batch_size": 32, "most_rate": 0.4}, "rate 0.5 where no member's is to be above 0.4"),
        ({"most_rate": 1.5}, "rate 1 where no member's is to be above 1.5"),
        ({"noise_multiplier": 0.0015}, "share of noise of multiplier 0.00075, expected 0.001 at least"),
        ({"private": False, "noise_multiplier": 0.0}, "asks for a secure sum without protection"),
    ],
)
def test_what_is_no_step_of_a_secure_sum_is_declined(changes, words):
    free = replace(SUMS, min_noise_multiplier=0.0, allow_unprotected=True)
    with pytest.raises(DeclinedError, match=words):
        check_plan(replace(OF_SUM, **changes), free, public_size=64)


def test_the_operator_decides_on_sums_and_on_the_least_share():
    with pytest.raises(DeclinedError, match="allow-secure-sum in its own settings"):
        check_plan(OF_SUM, replace(SUMS, allow_secure_sum=False), public_size=64)
    with pytest.raises(DeclinedError, match=r"multiplier 2, this client's least is 2\.01"):
        check_plan(OF_SUM, replace(SUMS, min_share_multiplier=2.01), public_size=64)
