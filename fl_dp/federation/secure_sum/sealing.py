"""Seals pairs of key shares, of a member's seed and of its mask key, from dealer to receiver."""

from fl_dp.federation.secure_sum import keys
from fl_dp.federation.secure_sum.key_shares import GAUGE_BYTES, SHARE_BYTES, fits
from fl_dp.federation.secure_sum.terms import Terms

SEED, MASK_KEY = "seed", "mask key"  # the secrets that are dealt in shares


def sealing_key(private: bytes, terms: Terms, other: int, sender: int, receiver: int) -> bytes:
    """The key for what `sender` seals for `receiver`. private: share key of the one that is not `other`."""
    member = terms.members[other]
    secret = keys.agreed(private, member.share_key, repr(member.name))
    sites = (terms.members[sender].site, terms.members[receiver].site)
    return keys.derived(secret, terms.digest, "key shares", *sites)


def received(
    private: bytes, terms: Terms, sender: int, receiver: int, content: bytes, gauges: bytes
) -> bytes | None:
    """The pair; None if it cannot be read, or if a share does not fit the dealer's proof.

    private: the receiver's share key. gauges: for the two shares.
    """
    key = sealing_key(private, terms, sender, sender, receiver)
    pair = keys.unsealed(key, content, terms.digest)
    if pair is None or len(pair) != 2 * SHARE_BYTES:
        return None
    of_seed = fits(pair[:SHARE_BYTES], gauges[:GAUGE_BYTES])
    return pair if of_seed and fits(pair[SHARE_BYTES:], gauges[GAUGE_BYTES:]) else None


def about_secret(terms: Terms, dealer: int, kind: str) -> bytes:
    """What a dealer's proof for a secret is bound to: this attempt, this dealer, this secret."""
    return terms.digest + f"{terms.members[dealer].site} {kind}".encode()
