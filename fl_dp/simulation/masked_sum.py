"""`--secure`: the masks of a secure sum, played for all members and the server in one process.

This tests the protocol with the run's own numbers, but protects nothing: this process sees every part. The
sum that the server of `federation/secure_sum` opens is compared with the sum in the clear, number by number.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fl_dp.errors import FederationError
from fl_dp.federation.secure_sum.limits import Limits
from fl_dp.federation.secure_sum.messages import Checks, Confirmations, Inbox, Survivors
from fl_dp.federation.secure_sum.participant import Participant
from fl_dp.federation.secure_sum.proposing import proposed_head
from fl_dp.federation.secure_sum.summing import SecureSum
from fl_dp.federation.secure_sum.terms import Head, Terms
from fl_dp.federation.secure_sum.vector import flat, unflat
from fl_dp.kits.keys import SigningKey
from fl_dp.records import RoundPlan
from fl_dp.simulation.work import Array

logger = logging.getLogger("fl_dp")

Integers = NDArray[np.int64]
_Message = TypeVar("_Message", Head, Terms, Inbox, Checks, Survivors, Confirmations)


class MaskedSums:
    """dropouts, colluders: the run's d and c. Site keys are made here and stay the same in all rounds."""

    def __init__(self, dropouts: int, colluders: int) -> None:
        self._dropouts, self._colluders = dropouts, colluders
        self._keys: list[SigningKey] = []

    def opened(
        self,
        plans: Sequence[RoundPlan],
        weights: Mapping[str, Array],
        parts: Sequence[Mapping[str, Array]],
    ) -> Mapping[str, Integers]:
        """The sum of `parts`, one from each member that has trained (at least one), as the server opens it.

        plans: of all that have paid. Members that were asked and gave nothing drop out before they mask.
        SumLostError if too few are left; FederationError if the opened sum is not the plain one.
        """
        shares = plans[0].shares
        members = shares + self._dropouts + self._colluders
        vectors = [flat(part) for part in parts]
        head = proposed_head(
            plans, weights, numbers=len(vectors[0]), members=members, dropouts=self._dropouts,
            colluders=self._colluders,
        )  # fmt: skip
        found = _Attempt(head, self._keys_of(members)).sum_of(vectors)
        _require_equal(found, flat(plain_sum(parts)))
        logger.info("round %d: masks of %d members played", head.server_round, members)
        return unflat(found, {name: array.shape for name, array in parts[0].items()})

    def _keys_of(self, members: int) -> Sequence[SigningKey]:
        while len(self._keys) < members:
            self._keys.append(SigningKey.generate())
        return self._keys[:members]


def plain_sum(parts: Sequence[Mapping[str, Array]]) -> Mapping[str, Integers]:
    """The sum in the clear, of one part at least."""
    return {name: np.sum([one[name] for one in parts], axis=0, dtype=np.int64) for name in parts[0]}


class _Attempt:
    """Runs all stages; messages become fields, and members bytes, as between machines."""

    def __init__(self, head: Head, keys: Sequence[SigningKey]) -> None:
        self._head, self._keys = head, {key.public: key for key in keys}
        self._limits = Limits(
            least_clients=head.clients - head.dropouts,
            least_shares=head.shares,
            least_colluders=head.colluders,
            most_dropouts=head.dropouts,
        )
        self._server = SecureSum(head, {site: f"member {k}" for k, site in enumerate(self._keys)})
        self._kept: dict[str, bytes] = {}

    def sum_of(self, vectors: Sequence[Integers]) -> Integers:
        """The first members give a vector each; the others drop out."""
        self._agree()
        checks = self._server.checks()
        for site, vector in zip(self._keys, vectors, strict=False):
            member = self._member(site)
            member.accept(_carried(checks))
            self._server.take_masked(site, self._keep(site, member, member.mask(vector)))
        survivors = self._server.survivors()
        for site in self._server.here():
            member = self._member(site)
            answer = member.confirm(_carried(survivors))
            self._server.take_confirmation(site, self._keep(site, member, answer))
        confirmations = self._server.confirmations()
        for site in self._server.here():
            opening = self._member(site).open(_carried(confirmations))
            self._server.take_opening(site, opening.to_fields())
        return self._server.total()

    def _agree(self) -> None:
        """Stages 1 to 3, with all members."""
        for site, key in self._keys.items():
            member, advertisement = Participant.begin(_carried(self._head), self._limits, key)
            self._server.take_advertisement(site, self._keep(site, member, advertisement))
        terms = self._server.terms()
        for site in self._keys:
            member = self._member(site)
            sharing = member.share(_carried(terms), self._limits, self._keys.keys())
            self._server.take_sharing(site, self._keep(site, member, sharing))
        for site in self._keys:
            member = self._member(site)
            check = member.check(_carried(self._server.inbox(site)))
            self._server.take_check(site, self._keep(site, member, check))

    def _member(self, site: str) -> Participant:
        return Participant.from_bytes(self._kept[site], self._keys[site])

    def _keep(self, site: str, member: Participant, answer: Any) -> Mapping[str, Any]:
        """Keep the member as a client does until the next stage; returns the answer's fields."""
        self._kept[site] = member.to_bytes()
        fields: Mapping[str, Any] = answer.to_fields()
        return fields


def _carried(message: _Message) -> _Message:
    """The message as it arrives at the other end."""
    return type(message).from_fields(message.to_fields())


def _require_equal(found: Integers, plain: Integers) -> None:
    wrong = np.flatnonzero(found != plain)
    if len(wrong):
        first = int(wrong[0])
        raise FederationError(
            f"--secure: the opened sum is not the plain one: {len(wrong)} of {len(plain)} numbers differ, "
            f"number {first} first: {found[first]} instead of {plain[first]}. The masks of this fl_dp do not "
            "cancel; please report it."
        )
