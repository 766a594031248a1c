"""Keys of one attempt."""

import secrets

from fl_dp.federation.secure_sum.keys import ORDER, fresh_secret


def test_a_fresh_secret_is_any_number_from_1_to_below_the_order(monkeypatch):
    monkeypatch.setattr(secrets, "randbelow", lambda below: 0)
    assert int.from_bytes(fresh_secret()) == 1
    monkeypatch.setattr(secrets, "randbelow", lambda below: below - 1)
    assert int.from_bytes(fresh_secret()) == ORDER - 1
