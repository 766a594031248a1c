"""Dealing and putting together."""

import secrets

import pytest

from fl_dp.errors import ConfigError
from fl_dp.federation.secure_sum.key_shares import deal, is_share, secret_of
from fl_dp.federation.secure_sum.keys import ORDER, fresh_secret

SMALL, LARGE = (1).to_bytes(32), (ORDER - 1).to_bytes(32)


@pytest.mark.parametrize(("members", "threshold"), [(3, 2), (10, 6), (12, 12), (100, 51)])
@pytest.mark.parametrize("secret", [SMALL, LARGE, None])
def test_any_threshold_of_shares_give_the_secret_and_one_fewer_do_not(members, threshold, secret):
    secret = secret or fresh_secret()
    shares = deal(secret, members, threshold)
    chosen = secrets.SystemRandom().sample(range(members), threshold)
    assert secret_of({place: shares[place] for place in chosen}, threshold) == secret
    assert secret_of({place: shares[place] for place in chosen[1:]}, threshold - 1) != secret
    assert shares != deal(secret, members, threshold)  # a polynomial is new each time


def test_shares_of_a_polynomial_that_was_written_down():
    """5 + 3 x + 2 x^2 at the points 1, 3 and 5."""
    shares = {0: (10).to_bytes(32), 2: (32).to_bytes(32), 4: (70).to_bytes(32)}
    assert secret_of(shares, 3) == (5).to_bytes(32)


def test_fewer_than_the_threshold_open_nothing():
    with pytest.raises(ConfigError, match="2 key shares: 3 open a key"):
        secret_of({0: SMALL, 3: SMALL}, 3)


def test_every_coefficient_but_the_secret_is_drawn_anew(monkeypatch):
    secret, drawn, randbelow = fresh_secret(), [], secrets.randbelow
    monkeypatch.setattr(secrets, "randbelow", lambda below: drawn.append(randbelow(below)) or drawn[-1])
    for _ in range(2):
        deal(secret, 10, 6)
    assert len(set(drawn)) == len(drawn) == 2 * 5


def test_what_is_a_share():
    assert is_share((ORDER - 1).to_bytes(32))
    assert not any(map(is_share, (ORDER.to_bytes(32), bytes(31), bytes(33))))


def test_a_fresh_secret_is_any_number_from_1_to_below_the_order(monkeypatch):
    monkeypatch.setattr(secrets, "randbelow", lambda below: 0)
    assert int.from_bytes(fresh_secret()) == 1
    monkeypatch.setattr(secrets, "randbelow", lambda below: below - 1)
    assert int.from_bytes(fresh_secret()) == ORDER - 1
