"""What a hostile server asks of a client as it is shipped: declined, or paid for within the budget."""

from dataclasses import replace

import numpy as np
import pytest

from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.federation.wire.arrays import state_arrays
from fl_dp.records import Entry, Refusal, RoundPlan

PLAN = RoundPlan("run-1", 1, "linear", 2, 10, 0.5, 0.0, 2.0, 1.0)
ROUND = Entry(0.1, 2.0, 2)


def test_a_plan_that_protects_nothing_is_declined_and_costs_nothing(real_client):
    client = real_client()
    for changes, words in (
        ({"noise_multiplier": 0.0}, "noise multiplier 0"),
        ({"noise_multiplier": 1e-300}, "noise multiplier 1e-300"),
        ({"noise_multiplier": 0.01}, "Not one more step fits"),  # hardly any: more than any budget
        ({"max_grad_norm": 1e30}, "clipping bound 1e+30"),
        ({"max_grad_norm": 1e-45}, "clipping bound 1e-45"),  # float32 noise of this size rounds to zero
        ({"clipping": "none"}, "clipping 'none', expected abadi or automatic"),
        ({"steps": 10**12}, "asks for 1,000,000,000,000 steps"),
        ({"expected_batch_size": 101}, "declares 100 records"),
        ({"run": "x" * 10**6}, "names a run"),
    ):
        refusal = client.train(replace(PLAN, **changes))
        assert refusal.status == "declined"
        assert words in refusal.reason
    assert client.register().spent == ()


@pytest.mark.parametrize(
    ("batch", "entry"),
    [(10, ROUND), (100, Entry(1.0, 2.0, 2))],  # a batch of all records is no sampling at all
)
def test_of_a_million_steps_those_are_taken_that_the_budget_pays_for(real_client, batch, entry):
    client = real_client(epsilon=4.0)
    update = client.train(replace(PLAN, expected_batch_size=batch, steps=1_000_000))
    assert 1 <= update.steps < 1000
    assert update.spent == (replace(entry, steps=update.steps),)
    assert update.epsilon == compute_epsilon(update.spent, 1e-5, "rdp") <= 4.0
    refusal = client.train(replace(PLAN, expected_batch_size=batch, server_round=2))
    assert (refusal.status, refusal.budget_exhausted) == ("declined", True)


def test_a_round_is_not_repeated(real_client):
    client = real_client()
    client.train(PLAN)
    for replay in (PLAN, replace(PLAN, steps=1), replace(PLAN, learning_rate=9.0)):
        refusal = client.train(replay)
        assert refusal == Refusal("failed", "Round 1 of run run-1 was already taken; it is not repeated.")
    assert client.register().spent == (ROUND,)


def test_a_run_by_another_name_pays_from_the_same_budget(real_client):
    client = real_client(epsilon=1.5)
    answers = [client.train(replace(PLAN, run=f"run-{number}", steps=20)) for number in range(8)]
    updates = [answer for answer in answers if not isinstance(answer, Refusal)]
    assert 1 <= len(updates) < len(answers)
    assert all(update.epsilon <= 1.5 for update in updates)
    assert all(answer.budget_exhausted for answer in answers[len(updates) :])


def test_noise_and_rate_may_not_depend_on_what_was_seen(real_client):
    client = real_client()
    client.train(PLAN)
    words = "sample rate 0.1 with noise multiplier 2, and its epsilon holds for one mechanism"
    for run in ("run-1", "run-2"):
        for change in ({"noise_multiplier": 3.0}, {"expected_batch_size": 5}):
            refusal = client.train(replace(PLAN, run=run, server_round=2, **change))
            assert (refusal.status, refusal.budget_exhausted) == ("declined", False)
            assert words in refusal.reason
    assert client.register().spent == (ROUND,)
    assert client.train(replace(PLAN, run="run-2")).spent == (replace(ROUND, steps=4),)
    free = real_client("free", **{"vary-mechanism": True})  # its operator says so
    free.train(PLAN)
    update = free.train(replace(PLAN, server_round=2, noise_multiplier=3.0))
    assert set(update.spent) == {ROUND, Entry(0.1, 3.0, 2)}


def test_weights_that_nothing_can_be_learnt_from_are_declined_before_data_are_touched(real_client):
    client = real_client()
    for value in (np.nan, np.inf, -np.inf, 3e38, -3e38, 1.1e6):
        arrays = state_arrays(client.model)
        arrays["1.bias"][0] = value
        refusal = client.train(PLAN, arrays)
        assert refusal.status == "declined"
        beyond = "values beyond 1e+06" if np.isfinite(value) else "values that are not finite"
        assert "array '1.bias'" in refusal.reason
        assert beyond in refusal.reason
    assert client.register().spent == ()
