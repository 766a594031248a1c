"""A secure sum of the sites' histograms: with which noise, of which sites, and what it says once it is open.

Its noise must be enough for every member, and an account of test records has one noise for ever
(`client/evaluation.py`). So sites are asked first; the noise is the one that most of them allow, and others
are left out before anybody pays.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from flwr.app import ArrayRecord, Message, RecordDict

from fl_dp.accounting.shares import honest_shares
from fl_dp.errors import FederationError
from fl_dp.federation.secure_sum.vector import grid_of
from fl_dp.federation.wire.arrays import ArraySpec, NDArray
from fl_dp.federation.wire.evaluation import (
    CELLS,
    EvaluationOffer,
    EvaluationPlan,
    evaluation_to_content,
    offer_question,
)
from fl_dp.federation.wire.partial_sums import ask_for_sum, group_of, read_sum
from fl_dp.reporting.reports import OpenedSum
from fl_dp.reporting.wording import counted
from fl_dp.tasks.score_histogram import Layout


@dataclass(frozen=True, slots=True)
class HistogramSum:
    """plan: what its members are asked for. left_out: by site, why it is none. colluders: c."""

    plan: EvaluationPlan
    members: Collection[str]
    left_out: Mapping[str, str]
    colluders: int

    @classmethod
    def of(
        cls,
        plan: EvaluationPlan,
        offers: Mapping[str, EvaluationOffer],
        layout: Layout,
        dropouts: int,
        colluders: int,
    ) -> Self:
        """ConfigError if those that allow one noise are too few for a sum."""
        noise = common_noise(offers.values())
        members = [name for name, one in offers.items() if one.allows(noise)]
        left_out = {
            name: f"its test records have noise multiplier {one.noise_multiplier:g}, the sum has {noise:g}"
            for name, one in offers.items()
            if name not in members
        }
        asked = replace(
            plan,
            by_subgroup=bool(layout.subgroups),
            shares=honest_shares(len(members), dropouts, colluders),
            noise_multiplier=noise,
            sensitivity=layout.sensitivity,
            numbers=layout.size,
        )
        return cls(asked, members, left_out, colluders)

    def content(self, weights: ArrayRecord) -> RecordDict:
        """The question to its members."""
        return ask_for_sum(evaluation_to_content(self.plan, weights), 1.0, [CELLS])

    def opened(self, replies: Sequence[Message]) -> tuple[NDArray, float, OpenedSum]:
        """The cells, the deviation of the noise in each, and whose they are. FederationError if it is lost.

        Its members are those whose vectors are in it; what else they claim changes nothing of the sum.
        """
        group = [one for one in replies if group_of(one) is not None]
        if not group:
            raise FederationError("no site has given its histogram")
        weights = dict.fromkeys((one.metadata.reply_to_message_id for one in group), 1.0)
        expected = {CELLS: ArraySpec((self.plan.numbers,), np.dtype(np.int64))}
        found = read_sum(group, weights, expected)
        least = found.shares + self.colluders
        if not found.shares or len(group) < least:
            raise FederationError(f"a sum of {counted(len(group), 'histogram')}, {least} are needed")
        grid = grid_of(self.plan.sensitivity, self.plan.noise_multiplier, found.shares, self.plan.numbers)
        cells = grid.spacing * found.arrays[CELLS].astype(np.float64)
        deviation = math.sqrt(len(group)) * grid.share_deviation
        return cells, deviation, OpenedSum(len(group), found.shares, found.masked)


def question(plan: EvaluationPlan) -> RecordDict:
    """What sites are asked first: with which noise they would add to a sum."""
    return offer_question(replace(plan, shares=1))


def common_noise(offers: Collection[EvaluationOffer]) -> float:
    """The noise multiplier that most sites allow; of several, the largest. 0 without sites."""
    asked = {one.noise_multiplier for one in offers}
    return max(asked, key=lambda noise: (sum(one.allows(noise) for one in offers), noise), default=0.0)
