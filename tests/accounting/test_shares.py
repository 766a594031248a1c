"""How many shares the noise of a secure sum is made up of, and which sums no threshold protects."""

import pytest

from fl_dp.accounting.shares import honest_shares
from fl_dp.errors import ConfigError


@pytest.mark.parametrize(
    ("sum_", "shares"), [((10, 1, 1), 8), ((100, 10, 1), 89), ((4, 0, 1), 3), ((3, 0, 1), 2), ((5, 1, 2), 2)]
)
def test_the_shares_of_those_who_drop_out_or_collude_do_not_count(sum_, shares):
    assert honest_shares(*sum_) == shares


def test_every_sum_that_is_allowed_has_a_threshold_and_a_share():
    for members in (*range(3, 24), 99, 100):
        for dropouts in range(members):
            for colluders in range(1, members):
                possible = any(
                    (members + colluders) / 2 < threshold <= members - dropouts
                    for threshold in range(members + 1)
                )
                if possible:
                    assert honest_shares(members, dropouts, colluders) >= 1
                else:
                    with pytest.raises(ConfigError, match="no threshold"):
                        honest_shares(members, dropouts, colluders)


@pytest.mark.parametrize("sum_", [(2, 0, 1), (101, 0, 1), (10, -1, 1), (10, 0, 0)])
def test_numbers_out_of_range_are_refused(sum_):
    with pytest.raises(ConfigError, match="expected"):
        honest_shares(*sum_)
