"""A server cannot talk a client out of its privacy."""

import math
import re
from dataclasses import replace

import pytest

from fl_dp.config.client import ClientConfig
from fl_dp.errors import DeclinedError
from fl_dp.federation.client.policy import MAX_STEPS, check_plan
from fl_dp.records import MOST_BATCH, NUMERICS, RoundPlan

CONFIG = ClientConfig(client="0", ledger="x.sqlite", min_noise_multiplier=1.0, max_grad_norm=1.5)
PLAN = RoundPlan("run-1", 1, "linear", 10, 64, 0.5, 0.0, 1.0, 1.5)


def test_a_plan_at_the_limits_is_accepted():
    check_plan(PLAN, CONFIG, public_size=64)
    check_plan(replace(PLAN, steps=MAX_STEPS, momentum=0.99), CONFIG, public_size=64)


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("noise_multiplier", (0.0, -1.0, math.nan, math.inf)),
        ("learning_rate", (0.0, math.nan, math.inf)),
        ("momentum", (1.0, -0.1, math.nan)),
        ("pull", (-0.1, 2e6, math.nan)),
    ],
)
def test_numbers_that_no_round_has_are_declined(field, values):
    for value in values:
        with pytest.raises(DeclinedError, match=re.escape(f"asks for {field.replace('_', ' ')} {value:g}")):
            check_plan(replace(PLAN, **{field: value}), CONFIG, public_size=64)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"noise_multiplier": 0.5}, "asks for noise multiplier 0.5, this client's least is 1"),
        ({"noise_multiplier": math.nan}, "asks for noise multiplier nan, expected 0.001 to"),
        ({"clipping": "global"}, "asks for clipping 'global', expected abadi or automatic"),
        ({"max_grad_norm": 2.0}, "asks for clipping bound 2, this client's largest is 1.5"),
        ({"max_grad_norm": 0.0}, "clipping bound 0"),
        ({"max_grad_norm": math.nan}, "clipping bound nan"),
        ({"expected_batch_size": 65}, "expected batch size of 65, this client declares 64 records"),
        ({"expected_batch_size": 0}, "expected batch size of 0"),
        ({"steps": 0}, "asks for 0 steps"),
        ({"steps": -3}, "asks for -3 steps"),
        ({"steps": MAX_STEPS + 1}, "steps"),
        ({"server_round": 0}, "round 0"),
        ({"shares": -1}, "asks for a share in -1, expected 0 or more"),
        ({"arithmetic": "certain"}, "asks for arithmetic 'certain', expected steady-rows or proven"),
        ({"arithmetic": "assumed"}, "asks for arithmetic 'assumed', expected steady-rows or proven"),
        ({"loss": "hinge"}, "asks for loss 'hinge', this client's own settings have 'cross-entropy'"),
        ({"model": "tanh-cnn"}, "asks for model 'tanh-cnn', this client's own settings have 'linear'"),
        (
            {"trained": "body.*"},
            "training of 'body.*', this client's own settings have none of its own",
        ),
        (
            {"task": "0123abcd"},
            "asks for task '0123abcd', this client's own settings have none of its own. The usual "
            "cause is that the server's data have another form: give both sides the same schema",
        ),
        (
            {"unit": "person, first 8 records"},
            "first 8 records', this client's own settings have 'record'",
        ),
        ({"numerics": NUMERICS + 1}, f"numerics {NUMERICS + 1}, this client's fl_dp has {NUMERICS}"),
        ({"numerics": NUMERICS - 1}, "Install one version of fl_dp at all sites"),
        ({"local_algorithm": "own"}, "local algorithm 'own', expected .*fedavg or"),
        ({"local_algorithm": "mr_mtl"}, "local algorithm 'mr_mtl'"),
        ({"personal": "head.*"}, "personal 'head.*', this client's own settings have none of its own"),
        ({"personal": " "}, "personal ' '"),
        ({"origin": "x" * 65}, "names a run in more than 64"),
        ({"run": ""}, "name of its run"),
        ({"run": "x" * 65}, "names a run in more than 64"),
        ({"run": "a\x1b[2J"}, "names a run in more than 64"),
    ],
)
def test_a_plan_against_the_settings_is_declined_with_the_reason(changes, words):
    with pytest.raises(DeclinedError, match=words):
        check_plan(replace(PLAN, **changes), CONFIG, public_size=64)


def test_a_batch_whose_rounding_is_not_paid_for_is_declined():
    check_plan(replace(PLAN, expected_batch_size=MOST_BATCH), CONFIG, public_size=2**30)
    with pytest.raises(DeclinedError, match="expected batch size of 1048577, expected at most 1048576"):
        check_plan(replace(PLAN, expected_batch_size=MOST_BATCH + 1), CONFIG, public_size=2**30)


def test_without_limits_of_its_own_noise_must_still_be_there():
    free = ClientConfig(client="0", ledger="x.sqlite")
    check_plan(replace(PLAN, max_grad_norm=1e6, noise_multiplier=0.01), free, public_size=64)
    for bound in (1e-45, 1e-13, 1e13, 3e38, math.inf):
        with pytest.raises(DeclinedError, match=r"clipping bound .* expected 1e-12 to 1e\+12"):
            check_plan(replace(PLAN, max_grad_norm=bound), free, public_size=64)
    for noise in (0.0, 1e-300, 1e-4, 1e7):
        with pytest.raises(DeclinedError, match=r"noise multiplier .* expected 0.001 to 1e\+06"):
            check_plan(replace(PLAN, noise_multiplier=noise), free, public_size=64)


def test_a_client_with_proven_arithmetic_declines_any_other():
    strict = replace(CONFIG, arithmetic="proven")
    check_plan(replace(PLAN, arithmetic="proven"), strict, public_size=64)
    check_plan(replace(PLAN, arithmetic="proven"), CONFIG, public_size=64)
    with pytest.raises(DeclinedError, match="asks for arithmetic 'steady-rows', this client's operator"):
        check_plan(PLAN, strict, public_size=64)


def test_trained_parameters_and_a_model_by_a_path_are_the_clients_own_choice():
    own = replace(CONFIG, trainable="head.*", model="/here/mine.py:make")
    check_plan(replace(PLAN, trained=own.trained, model="make"), own, public_size=64)
    with pytest.raises(DeclinedError, match=r"asks for training of none of its own, .* have 'head\.\*'"):
        check_plan(replace(PLAN, model="make"), own, public_size=64)
    with pytest.raises(DeclinedError, match=r"asks for model 'other', .* settings have 'make'"):
        check_plan(replace(PLAN, trained=own.trained, model="other"), own, public_size=64)


SUMS = replace(CONFIG, allow_secure_sum=3)
OF_SUM = replace(PLAN, steps=1, noise_multiplier=4.0, shares=4)


def test_a_step_into_a_secure_sum_is_accepted():
    check_plan(OF_SUM, SUMS, public_size=64)
    check_plan(OF_SUM, replace(SUMS, min_share_multiplier=2.0), public_size=64)  # 4 / sqrt(4)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"steps": 2}, "asks for 2 steps into a secure sum, which takes one"),
        ({"optimizer": "adam"}, "asks for optimizer 'adam' in a secure sum, expected 'sgd'"),
        ({"momentum": 0.9}, "asks for momentum 0.9 in a secure sum"),
        (
            {"optimizer_settings": "weight_decay=0.01"},
            "asks for optimizer settings 'weight_decay=0.01' in a secure sum, expected ''",
        ),
        ({"local_algorithm": "fedprox"}, "asks for local algorithm 'fedprox' in a secure sum"),
        ({"shares": 101}, "asks for a share in 101, expected 1 to 100"),
        ({"noise_multiplier": 0.0015}, "share of noise of multiplier 0.00075, expected 0.001 at least"),
        ({"private": False, "noise_multiplier": 0.0}, "asks for a secure sum without protection"),
    ],
)
def test_an_invalid_step_of_a_secure_sum_is_declined(changes, words):
    free = replace(SUMS, min_noise_multiplier=0.0, allow_unprotected=True)
    with pytest.raises(DeclinedError, match=words):
        check_plan(replace(OF_SUM, **changes), free, public_size=64)


def test_the_operator_decides_on_sums_and_on_the_least_share():
    for changes, words in (
        ({"allow_secure_sum": 0}, "allow-secure-sum in its own settings"),
        ({"min_share_multiplier": 2.01}, r"multiplier 2, this client's least is 2\.01"),
    ):
        with pytest.raises(DeclinedError, match=words):
            check_plan(OF_SUM, replace(SUMS, **changes), public_size=64)
