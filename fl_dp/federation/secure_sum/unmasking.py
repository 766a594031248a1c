"""The server's last step: secrets from key shares, each checked by what its owner has signed; masks off."""

from collections.abc import Collection, Mapping, Sequence

from fl_dp.errors import DeclinedError, FederationError
from fl_dp.federation.secure_sum import keys, masks
from fl_dp.federation.secure_sum.key_shares import secret_of
from fl_dp.federation.secure_sum.terms import Member, Terms


class Unmasking:
    """shares: by place of who opened, what it gave by place. survivors: whose vectors are in the sum."""

    def __init__(
        self, terms: Terms, survivors: Collection[int], shares: Mapping[int, Sequence[bytes]]
    ) -> None:
        self._terms, self._digest, self._shares = terms, terms.digest, shares
        self._survivors = set(survivors)

    def take_off(self, total: masks.Words) -> None:
        """In place: each survivor's own mask, and its masks with those who are not in the sum.

        FederationError, with the member's name, for a secret that the shares do not give.
        """
        everybody = range(len(self._terms.members))
        secrets = [self._secret(place) for place in everybody]  # first, so that a lost sum is not half open
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
        """Held against its public key: a sum that opens is right, whatever the proofs of shares are worth."""
        member = self._terms.members[place]
        public = member.seed_key if place in self._survivors else member.mask_key
        given = {opener: shares[place] for opener, shares in self._shares.items()}
        found = secret_of(given, self._terms.head.threshold)
        if not any(found) or keys.public_of(found) != public:
            raise FederationError(f"the key shares that {member.name!r} has dealt do not open its key")
        return found
