"""A client's single step for a secure sum: trained like any step, checked against what was signed, masked."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from flwr.app import RecordDict

from fl_dp.config.client import ClientConfig
from fl_dp.data.persons import Examples
from fl_dp.errors import DeclinedError
from fl_dp.federation.client.lost_rounds import LostRounds
from fl_dp.federation.client.own_training import OwnTraining
from fl_dp.federation.client.stages import PaidRound
from fl_dp.federation.secure_sum.participant import Participant
from fl_dp.federation.secure_sum.vector import check_grid, flat
from fl_dp.federation.secure_sum.wire import MASKED
from fl_dp.federation.wire.arrays import NDArray
from fl_dp.records import RoundPlan
from fl_dp.weights_digest import weights_digest


class MaskedTraining(OwnTraining):
    """participant: has accepted what all members have signed. lost: counts sums that are paid for."""

    gives_to_sums = True

    def __init__(
        self, settings: ClientConfig, data: Examples, participant: Participant, lost: LostRounds
    ) -> None:
        super().__init__(settings, data)
        self._participant, self._lost = participant, lost

    def prepare(self, plan: RoundPlan, content: RecordDict) -> None:
        """As in `OwnTraining`; also DeclinedError unless the grid is the one that was signed."""
        super().prepare(plan, content)
        assert self.trainer is not None
        check_grid(
            self._participant.head,
            sum(p.numel() * (1 + p.is_complex()) for p in self.trainer.algorithm.parameters.values()),
        )

    def check_received(self, weights: Mapping[str, NDArray]) -> None:
        """DeclinedError unless they are the signed ones; otherwise each member could get other weights."""
        if weights_digest(weights) != self._participant.head.weights:
            raise DeclinedError(
                "the round's weights are not those that the members of its secure sum have signed."
            )

    def train(self, paid: PaidRound) -> Mapping[str, Any] | None:
        """The masked sum of the step's clipped gradients and its share of noise, for `paid`."""
        self._lost.paid()
        share = super().train(paid)
        if share is None:
            return None
        masked = self._participant.mask(flat(share))
        return {MASKED: np.frombuffer(masked.vector, "<u8").astype(np.uint64)}
