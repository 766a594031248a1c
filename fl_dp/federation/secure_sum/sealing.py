"""Seals pairs of key shares, of a member's seed and of its mask key, and judges complaints about them."""

from collections.abc import Mapping

from fl_dp.federation.secure_sum import keys
from fl_dp.federation.secure_sum.key_shares import GAUGE_BYTES, SHARE_BYTES, fits
from fl_dp.federation.secure_sum.messages import Complaint
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


def liars(
    terms: Terms, accuser: int, complaint: Complaint, dealt: Mapping[int, tuple[bytes, bytes]]
) -> dict[int, str]:
    """By place, who has lied, and how: those whose shares do not fit; if all fit, the accuser.

    The accuser's own key shows what it was dealt; nobody's word counts. dealt: by dealer's place, the sealed
    shares sent to the accuser, and what they must fit.
    """
    private, own = complaint.share_key, terms.members[accuser]
    if not 0 < int.from_bytes(private) < keys.ORDER or keys.public_of(private) != own.share_key:
        return {accuser: "it complains of key shares and does not show them"}
    found = {
        place: f"its key shares for {own.name!r} cannot be read or do not fit"
        for place, sealed_and_gauges in dealt.items()
        if received(private, terms, place, accuser, *sealed_and_gauges) is None
    }
    return found or {accuser: "it complains of key shares that fit"}
