"""The server of one attempt: its messages to the members, its checks of their answers, and the final sum.

A member whose answer is missing or malformed drops out, with the reason in `dropped`. If too few are left,
`SumLostError` says why. Each `take_...` takes an answer's fields as received. A stage's message to members is
made when the answers of the previous stage are in.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fl_dp.errors import ConfigError, FederationError
from fl_dp.federation.secure_sum import keys
from fl_dp.federation.secure_sum.key_shares import is_share
from fl_dp.federation.secure_sum.limits import check_threshold
from fl_dp.federation.secure_sum.masks import take_off
from fl_dp.federation.secure_sum.messages import (
    AGREEMENT_PURPOSE,
    SURVIVORS_PURPOSE,
    Advertisement,
    Confirmation,
    Confirmations,
    Inbox,
    Masked,
    Opening,
    Sharing,
    Survivors,
    survivors_body,
)
from fl_dp.federation.secure_sum.terms import Head, Member, Terms
from fl_dp.kits.keys import is_signed
from fl_dp.reporting.wording import counted

Message = TypeVar("Message", Advertisement, Sharing, Masked, Confirmation, Opening)
_ABSENT = "it did not answer"


class SumLostError(FederationError):
    """An attempt ended without a sum. paid: whether members may have paid for it."""

    def __init__(self, reason: str, paid: bool) -> None:
        super().__init__(reason)
        self.paid = paid


class SecureSum:
    """One attempt. sites: by public key, the server's name for each site; K of them.

    dropped: by site, why it is not asked any more. A member whose vector is in the sum stays in it, whatever
    it does later. suspected: the names of the members whose key shares did not open their keys. DeclinedError
    for numbers that no secure sum has.
    """

    def __init__(self, head: Head, sites: Mapping[str, str]) -> None:
        check_threshold(head.clients, head.dropouts, head.colluders, head.threshold)
        if len(sites) != head.clients:
            raise ConfigError(
                f"A secure sum of {counted(head.clients, 'client')} with {counted(len(sites), 'site')}."
            )
        self.head, self.dropped, self.suspected = head, dict[str, str](), tuple[str, ...]()
        self._sites = dict(sorted(sites.items()))
        self._members: dict[str, Member] = {}
        self._sharings: dict[str, Sharing] = {}
        self._terms: Terms | None = None
        self._all_agreed = False
        self._total = np.zeros(head.numbers, np.uint64)
        self._masked: set[str] = set()
        self._survivors: Survivors | None = None
        self._confirmed: dict[str, Confirmation] = {}
        self._openings: dict[str, Opening] = {}

    def here(self) -> list[str]:
        """The sites that have not dropped out, to be asked next."""
        return [site for site in self._sites if site not in self.dropped]

    def drop(self, site: str, reason: str = _ABSENT) -> None:
        """Ask this member nothing more; the first reason stays."""
        self.dropped.setdefault(site, reason)

    def take_advertisement(self, site: str, fields: Mapping[str, Any]) -> None:
        answer = self._read(Advertisement, site, fields)
        if answer is None:
            return
        found = Member(
            self._sites[site], site, answer.mask_key, answer.share_key, answer.seed_key, answer.signature
        )
        others = [key for member in self._members.values() for key in member.keys]
        if not found.is_signed(self.head):
            self.drop(site, "its keys are not signed by its site for this attempt")
        elif not keys.are_distinct([*found.keys, *others]):
            self.drop(site, "its keys are somebody else's")
        elif not all(map(keys.agrees, found.keys)):
            self.drop(site, "its keys are invalid: all others would decline")
        else:
            self._members.setdefault(site, found)

    def terms(self) -> Terms:
        """For stage 2. SumLostError, unpaid, unless all have advertised: another attempt needs new keys."""
        if self._terms is None:
            self._need_all(self._members, "has made keys for this attempt")
            self._terms = Terms(self.head, tuple(self._members[site] for site in self._sites))
        return self._terms

    def take_sharing(self, site: str, fields: Mapping[str, Any]) -> None:
        answer, terms = self._read(Sharing, site, fields), self.terms()
        if answer is None:
            return
        if len(answer.ciphertexts) != self.head.clients - 1:
            self.drop(
                site, f"{counted(len(answer.ciphertexts), 'key share')}, expected {self.head.clients - 1}"
            )
        elif not is_signed(site, AGREEMENT_PURPOSE, terms.digest, answer.agreement):
            self.drop(site, "it has not signed the terms")
        else:
            self._sharings.setdefault(site, answer)

    def inbox(self, site: str) -> Inbox:
        """For stage 3, to this member. SumLostError, unpaid, unless all have agreed and shared."""
        if not self._all_agreed:
            self._need_all(self._sharings, "has agreed")
            self._all_agreed = True
        own = self.terms().place_of(site)
        agreements = (self._sharings[other].agreement for other in self._sites)
        ciphertexts = (
            self._sharings[other].ciphertexts[own - (own > place)]
            for place, other in enumerate(self._sites)
            if place != own
        )
        return Inbox(tuple(agreements), tuple(ciphertexts))

    def take_masked(self, site: str, fields: Mapping[str, Any]) -> None:
        """Stage 3: adds the vector to the sum."""
        if site in self._masked or self._survivors is not None:
            return  # a second or late vector, whose masks could not be removed
        answer = self._read(Masked, site, fields)
        if answer is None:
            return
        if len(answer.vector) != 8 * self.head.numbers:
            self.drop(site, f"a vector of {len(answer.vector)} bytes, expected {8 * self.head.numbers}")
            return
        self._total += np.frombuffer(answer.vector, "<u8")
        self._masked.add(site)

    def survivors(self) -> Survivors:
        """For stage 4, to all survivors. SumLostError, paid, if they are fewer than K - d."""
        if self._survivors is None:
            least = self.head.clients - self.head.dropouts
            for site in self._sites:
                if site not in self._masked:
                    self.drop(site)
            self._need(len(self._masked), least, "vector")
            places = (place for place, site in enumerate(self._sites) if site in self._masked)
            self._survivors = Survivors(tuple(places))
        return self._survivors

    def take_confirmation(self, site: str, fields: Mapping[str, Any]) -> None:
        answer = self._read(Confirmation, site, fields)
        body = survivors_body(self.terms().digest, self.survivors().places)
        if answer is None or site not in self._masked:
            return
        if is_signed(site, SURVIVORS_PURPOSE, body, answer.signature):
            self._confirmed.setdefault(site, answer)
        else:
            self.drop(site, "it has not signed the survivors")

    def confirmations(self) -> Confirmations:
        """For stage 5, to those that have confirmed. SumLostError, paid, if they are fewer than t."""
        self._need(len(self._confirmed), self.head.threshold, "confirmation")
        terms = self.terms()
        by_place = {terms.place_of(site): one.signature for site, one in self._confirmed.items()}
        places = tuple(sorted(by_place))
        return Confirmations(places, tuple(by_place[place] for place in places))

    def take_opening(self, site: str, fields: Mapping[str, Any]) -> None:
        answer = self._read(Opening, site, fields)
        if answer is None:
            return
        if len(answer.shares) == self.head.clients and all(map(is_share, answer.shares)):
            self._openings.setdefault(site, answer)
        else:
            self.drop(site, "it opened no key shares of all members")

    @property
    def openers(self) -> tuple[str, ...]:
        """Names of the members whose key shares were used."""
        terms = self.terms()
        return tuple(terms.members[terms.place_of(site)].name for site in self._openings)

    def total(self) -> NDArray[np.int64]:
        """Remove the masks; returns the sum of the survivors' integers. SumLostError, paid, if impossible."""
        self._need(len(self._openings), self.head.threshold, "opening")
        terms = self.terms()
        shares = {terms.place_of(site): answer.shares for site, answer in self._openings.items()}
        self.suspected = take_off(self._total, terms, self.survivors().places, shares)
        if self.suspected:
            names, openers = (", ".join(map(repr, one)) for one in (self.suspected, self.openers))
            raise self._lost(
                f"key shares that {names} dealt open no key: they were dealt wrongly, or one of those who "
                f"opened them lied: {openers}",
                paid=True,
            )
        return self._total.view(np.int64)

    def _read(self, kind: type[Message], site: str, fields: Mapping[str, Any]) -> Message | None:
        """The answer; None if it is unreadable, which drops the member, or if the site is no member now."""
        if site not in self._sites or site in self.dropped:
            return None
        try:
            return kind.from_fields(fields)
        except ConfigError as error:
            self.drop(site, str(error))
            return None

    def _need_all(self, found: Mapping[str, object], what: str) -> None:
        for site in self._sites:
            if site not in found or site in self.dropped:
                self.drop(site)
        if self.dropped:
            raise self._lost(f"not every client {what}", paid=False)

    def _need(self, found: int, least: int, what: str) -> None:
        if found < least:
            raise self._lost(f"{counted(found, what)}, {least} are needed", paid=True)

    def _lost(self, reason: str, paid: bool) -> SumLostError:
        named = "; ".join(f"{self._sites[site]}: {why}" for site, why in self.dropped.items())
        return SumLostError(f"Secure sum lost: {reason}." + (f" ({named})" if named else ""), paid)
