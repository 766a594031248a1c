"""What a member holds a proposed sum against before it makes keys for it: the plan that it was sent."""

from dataclasses import replace

import numpy as np
import pytest

from fl_dp.errors import DeclinedError
from fl_dp.federation.client.secure_member import _check_head
from fl_dp.federation.secure_sum.grid import proposed_head
from fl_dp.federation.secure_sum.terms import Head
from fl_dp.records import RoundPlan

PLAN = RoundPlan("run", 3, "linear", 1, 64, 1.0, 0.0, 4.0, 1.0, shares=3)


def proposed(plan: RoundPlan) -> Head:
    weights = {"weight": np.zeros(12, np.float32)}
    return proposed_head(plan, weights, numbers=12, members=5, dropouts=1, colluders=1)


def test_the_head_of_its_own_plan_is_accepted() -> None:
    """Each member's rate is its own."""
    _check_head(proposed(PLAN), PLAN)
    _check_head(proposed(PLAN), replace(PLAN, expected_batch_size=7))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"run": "other"}, "run other"),
        ({"server_round": 4}, "round 4"),
        ({"plan": "ab" * 32}, "plan abab"),
        ({"max_grad_norm": 0.5}, "clipping bound 0.5"),
        ({"noise_multiplier": 2.0}, "noise multiplier 2.0"),
        ({"dropouts": 0}, "shares of noise 4"),
    ],
)
def test_a_head_that_is_not_the_plans_is_declined(changed: dict[str, object], words: str) -> None:
    with pytest.raises(DeclinedError, match=f"a secure sum with {words}"):
        _check_head(replace(proposed(PLAN), **changed), PLAN)
    with pytest.raises(DeclinedError, match="with plan"):
        _check_head(proposed(PLAN), replace(PLAN, momentum=0.5))
