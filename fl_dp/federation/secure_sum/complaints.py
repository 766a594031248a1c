"""Judges a complaint about key shares: the accuser's own key shows what it was dealt."""

from collections.abc import Mapping

from fl_dp.federation.secure_sum import keys
from fl_dp.federation.secure_sum.messages import Complaint
from fl_dp.federation.secure_sum.sealing import received
from fl_dp.federation.secure_sum.terms import Terms


def liars(
    terms: Terms, accuser: int, complaint: Complaint, dealt: Mapping[int, tuple[bytes, bytes]]
) -> dict[int, str]:
    """By place, who has lied, and how: those whose shares do not fit; if all fit, the accuser.

    dealt: by dealer's place, the sealed shares sent to the accuser, and what they must fit. Nobody's word
    counts.
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
