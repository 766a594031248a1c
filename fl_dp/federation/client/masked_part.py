"""A member's part in the secure sum that all members have signed: checked before it pays, masked after."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fl_dp.errors import DeclinedError
from fl_dp.federation.client.lost_rounds import LostRounds
from fl_dp.federation.secure_sum.participant import Participant
from fl_dp.federation.secure_sum.vector import check_grid, flat
from fl_dp.federation.secure_sum.wire import MASKED
from fl_dp.federation.wire.arrays import NDArray
from fl_dp.weights_digest import weights_digest


@dataclass(frozen=True, slots=True)
class MaskedPart:
    """participant: has accepted what all members have signed. lost: counts sums that are paid for."""

    participant: Participant
    lost: LostRounds

    def check_weights(self, weights: Mapping[str, NDArray]) -> None:
        """DeclinedError unless they are the signed ones; otherwise each member could get other weights."""
        if weights_digest(weights) != self.participant.head.weights:
            raise DeclinedError(
                "the round's weights are not those that the members of its secure sum have signed."
            )

    def check_numbers(self, numbers: int) -> None:
        """DeclinedError unless the signed grid is that of a vector of so many numbers."""
        check_grid(self.participant.head, numbers)

    def masked(self, part: Mapping[str, Any]) -> dict[str, NDArray]:
        """What leaves instead of the integers: their masked vector."""
        masked = self.participant.mask(flat(part))
        return {MASKED: np.frombuffer(masked.vector, "<u8").astype(np.uint64)}
