"""The server's last step: recovers secrets from key shares, checks each by the signed keys, removes masks."""

from collections.abc import Collection, Mapping, Sequence

from fl_dp.errors import DeclinedError, FederationError
from fl_dp.federation.secure_sum import keys, masks
from fl_dp.federation.secure_sum.key_shares import secret_of
from fl_dp.federation.secure_sum.terms import Member, Terms


class Unmasking:
    """shares: by opener's place, its shares by dealer's place. survivors: whose vectors are in the sum."""

    def __init__(
        self, terms: Terms, survivors: Collection[int], shares: Mapping[int, Sequence[bytes]]
    ) -> None:
        self._terms, self._digest, self._shares = terms, terms.digest, shares
        self._survivors = set(survivors)

    def take_off(self, total: masks.Words) -> None:
        """Remove, in place, each survivor's own mask, and its masks with members that are not in the sum.

        FederationError, with the member's name, if the shares do not give its secret.
        """
        everybody = range(len(self._terms.members))
        secrets = [self._secret(place) for place in everybody]  # first, so that a lost sum stays closed
        for place, secret in enumerate(secrets):
            member = self._terms.members[place]
            if place in self._survivors:
                masks.add_stream(total, masks.own_key(secret, self._digest, member.site), -1)
            else:
                self._take_off_pairs(total, secret, member)

    def _take_off_pairs(self, total: masks.Words, private: bytes, gone: Member) -> None:
        for place in self._survivors:
            other = self._terms.members[place]
            try:
                key = masks.pair_key(
                    private, other.mask_key, self._digest, gone.site, other.site, repr(other.name)
                )
            except DeclinedError as error:
                raise FederationError(str(error)) from None
            masks.add_stream(total, key, -masks.pair_sign(other.site, gone.site))

    def _secret(self, place: int) -> bytes:
        """The secret, checked against its public key: an opened sum is right even if a share proof is not."""
        member = self._terms.members[place]
        public = member.seed_key if place in self._survivors else member.mask_key
        given = {opener: shares[place] for opener, shares in self._shares.items()}
        found = secret_of(given, self._terms.head.threshold)
        if not any(found) or keys.public_of(found) != public:
            raise FederationError(f"the key shares that {member.name!r} has dealt do not open its key")
        return found
