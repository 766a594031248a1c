"""The server's last step: secrets from key shares, each checked by what its owner has signed; masks off."""

from collections.abc import Callable, Collection, Mapping, Sequence

from fl_dp.errors import DeclinedError, FederationError
from fl_dp.federation.secure_sum import keys, masks
from fl_dp.federation.secure_sum.key_shares import Opener
from fl_dp.federation.secure_sum.terms import Member, Terms


class Unmasking:
    """shares: by place of who opened, what it gave by place. survivors: whose vectors are in the sum.

    wrong: places of those with a share that did not fit the others'.
    """

    def __init__(
        self, terms: Terms, survivors: Collection[int], shares: Mapping[int, Sequence[bytes]]
    ) -> None:
        self._terms, self._digest, self._shares = terms, terms.digest, shares
        self._survivors = set(survivors)
        self._opener = Opener(list(shares), terms.head.threshold)

    @property
    def wrong(self) -> set[int]:
        return self._opener.wrong

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
        member = self._terms.members[place]
        given = {opener: shares[place] for opener, shares in self._shares.items()}
        found = self._opener.open(given, self._fits(place, member))
        if found is None:
            raise FederationError(
                f"the key shares of {member.name!r} do not fit: it dealt wrong ones, or too many lie"
            )
        return found

    def _fits(self, place: int, member: Member) -> Callable[[bytes], bool]:
        if place in self._survivors:
            return lambda seed: keys.seed_digest(seed) == member.seed_digest
        return lambda private: keys.public_of(private) == member.mask_key
