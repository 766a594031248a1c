"""Our interpolation against the library's, and what wrong shares do to it."""

import secrets

import pytest
import shamirs

from fl_dp.errors import ConfigError
from fl_dp.federation.secure_sum.key_shares import PRIME, SHARE_BYTES, Opener, is_share, split


@pytest.mark.parametrize(("members", "threshold"), [(3, 2), (10, 6), (12, 12), (100, 51)])
def test_any_threshold_of_shares_give_the_secret_as_the_library_says(members, threshold):
    secret = secrets.token_bytes(32)
    shares = split(secret, members, threshold)
    chosen = secrets.SystemRandom().sample(range(members), threshold)
    opener = Opener(chosen, threshold)
    found = opener.open({place: shares[place] for place in chosen}, lambda _: True)
    points = [shamirs.share(place + 1, int.from_bytes(shares[place]), PRIME) for place in chosen]
    assert found == secret == shamirs.interpolate(points, threshold=threshold).to_bytes(32)


def test_one_share_fewer_gives_nothing():
    shares = split(bytes(32), 5, 3)
    fewer = {place: shares[place] for place in (0, 3)}
    assert Opener([0, 3], 2).open(fewer, lambda secret: secret == bytes(32)) is None
    with pytest.raises(ConfigError, match="2 key shares: 3 open a key"):
        Opener([0, 3, 3], 3)


def test_a_polynomial_is_new_each_time_also_of_small_and_large_secrets():
    for secret in (bytes(32), b"\xff" * 32):
        shares = dict(enumerate(split(secret, 4, 3)))
        assert shares != dict(enumerate(split(secret, 4, 3)))
        assert Opener([1, 2, 3], 3).open(shares, lambda found, secret=secret: found == secret) == secret


@pytest.mark.parametrize("liars", [set(), {0}, {9}, {0, 1, 5, 9}])
def test_liars_are_found_where_enough_shares_fit(liars: set[int]):
    first, second = (secrets.token_bytes(32) for _ in range(2))
    opener = Opener(range(10), 6)
    for secret in (first, second):
        shares = dict(enumerate(split(secret, 10, 6)))
        shares |= {place: secrets.token_bytes(SHARE_BYTES - 1).rjust(SHARE_BYTES, b"\0") for place in liars}
        assert opener.open(shares, lambda found, secret=secret: found == secret) == secret
    assert opener.wrong == {place for place in liars if place < 6}


def test_a_search_ends():
    """Of 100 who answered too many lie: None, and not all of the 10^29 sets are tried."""
    shares = dict(enumerate(split(bytes(32), 100, 51)))
    opener = Opener(range(100), 51)
    lies = dict.fromkeys(range(50), bytes(66))
    assert opener.open(shares | lies, lambda found: found == bytes(32)) is None
    assert opener.open(shares, lambda found: found == bytes(32)) == bytes(32)  # what still fits is opened


def test_what_is_a_share():
    assert is_share((PRIME - 1).to_bytes(66))
    assert not any(map(is_share, (PRIME.to_bytes(66), bytes(65), bytes(67))))
