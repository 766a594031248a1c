"""The messages of an evaluation on the sites' own test records.

    server -> client   "evaluation", "arrays"                       "evaluation"
    client -> server   "histogram", "spent", "arrays", or "refusal"   "offer", or "refusal"

Without arrays the server asks with which noise a client would add to a secure sum of histograms. The question
for its part of that sum, and the answer, then travel in the sum's stages (`secure_sum/wire.py`).

As all messages they are checked on receipt, and an answer is built from `SiteHistogram`, `EvaluationOffer` or
`Refusal` alone.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, MessageType, RecordDict

from fl_dp.clean_text import one_line
from fl_dp.config.site_metrics import MOST_EVALUATIONS
from fl_dp.decoding import AtMost, Range, encoded
from fl_dp.errors import ConfigError
from fl_dp.federation.wire.arrays import ArraySpec, NDArray, decode, encode
from fl_dp.federation.wire.bounds import require_only
from fl_dp.federation.wire.messages import (
    ARRAYS,
    REFUSAL,
    SPENT,
    array_record,
    fields_in,
    record_of,
    refusal_from_content,
    spent_from_content,
    spent_record,
)
from fl_dp.federation.wire.partial_sums import SUM_RECORDS
from fl_dp.records import (
    LEAST_DELTA,
    LEAST_EPSILON,
    LEAST_NOISE,
    MOST_DELTA,
    MOST_EPSILON,
    MOST_MEMBERS,
    MOST_NOISE,
    Entry,
    Leaves,
    Refusal,
)

EVALUATE = MessageType.EVALUATE
EVALUATION, HISTOGRAM, OFFER, CELLS = "evaluation", "histogram", "offer", "cells"
MOST_LABELS, MOST_LABEL = 256, 120  # subgroups, and characters of a name
MOST_NUMBERS = 2**31  # of a vector in a secure sum
MOST_OVER_OWN = 10.0  # the most noise of a sum, over what a site needs: its account keeps it for ever
MOST_COUNT = 1e15  # noise included; sums of larger ones would not be numbers, for all sites together


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """What the server asks of a client's test records. All of it is public.

    run, server_round: of the round whose result the weights are. evaluations: planned in the run, by which a
    client chooses its noise. bins: of the scores. by_subgroup: also for each declared subgroup. model, task
    and unit are compared with the client's own settings, as those of a RoundPlan.
    shares: 0: no secure sum; the client adds all of the noise, and chooses it. Otherwise as in a RoundPlan;
    noise_multiplier is then that of the sum, sensitivity by how much one unit moves it, numbers its length.
    """

    run: str
    server_round: int
    evaluations: Annotated[int, Range(1, MOST_EVALUATIONS)]
    bins: int
    by_subgroup: bool
    model: str
    task: str
    unit: str
    shares: Annotated[int, Range(0, MOST_MEMBERS)] = 0
    noise_multiplier: Annotated[float, Range(0, MOST_NOISE)] = 0.0
    sensitivity: Annotated[float, Range(0, MOST_COUNT)] = 0.0
    numbers: Annotated[int, Range(0, MOST_NUMBERS)] = 0

    @property
    def secure(self) -> bool:
        """Whether the histogram goes into a secure sum."""
        return self.shares > 0

    @property
    def own_multiplier(self) -> float:
        """The noise multiplier of what this client alone adds to a secure sum."""
        return self.noise_multiplier / math.sqrt(max(1, self.shares))

    @property
    def max_grad_norm(self) -> float:
        """The sensitivity, by the name that it has in a sum of steps."""
        return self.sensitivity

    @property
    def common(self) -> Self:
        """The part that all members of a sum share: all of it."""
        return self


@dataclass(frozen=True, slots=True)
class EvaluationOffer:
    """With which noise a client adds to a secure sum of histograms.

    noise_multiplier: the least, or, if `settled`, the only one: that of the account's evaluations so far. At
    most `MOST_OVER_OWN` times the least, so that no other site drowns its metrics.
    subgroups: as in `SiteHistogram`.
    """

    noise_multiplier: Annotated[
        float,
        Range(LEAST_NOISE, MOST_NOISE),
        Leaves("from its operator's evaluate-epsilon and the run's number of evaluations"),
    ]
    settled: Annotated[bool, Leaves("from plans, which servers chose")]
    subgroups: Annotated[
        tuple[str, ...], AtMost(MOST_LABELS), Leaves("declared by its schema or task, not counted in records")
    ]

    def allows(self, noise_multiplier: float) -> bool:
        """Whether the client adds to a sum of this noise."""
        own = self.noise_multiplier
        return noise_multiplier == own if self.settled else own <= noise_multiplier <= MOST_OVER_OWN * own


@dataclass(frozen=True, slots=True)
class SiteHistogram:
    """A client's answer: the noised histogram of its test records.

    cells: float64 (size,), see `tasks/score_histogram.py`; in a secure sum the client's part of it, int64,
    which is masked (uint64) before it leaves. spent: what its account of test records holds,
    this evaluation included; epsilon, delta: the cost of it; budget: the most that it may spend; accountant:
    the one that computes it. subgroups: full names, those of one division after the other.
    """

    cells: Annotated[NDArray, Leaves("noised, which evaluate-epsilon pays for")]
    spent: Annotated[
        tuple[Entry, ...], Leaves("from its operator's evaluate-epsilon and the run's number of evaluations")
    ]
    epsilon: Annotated[float, Range(0, MOST_EPSILON), Leaves("computed from spent")]
    delta: Annotated[float, Range(LEAST_DELTA, MOST_DELTA), Leaves("its operator's choice")]
    budget: Annotated[float, Range(LEAST_EPSILON, MOST_EPSILON), Leaves("its operator's choice")]
    accountant: Annotated[str, Leaves("its operator's choice")]
    subgroups: Annotated[
        tuple[str, ...], AtMost(MOST_LABELS), Leaves("declared by its schema or task, not counted in records")
    ]


def evaluation_to_content(plan: EvaluationPlan, arrays: ArrayRecord) -> RecordDict:
    """An evaluation's message. `arrays` may be shared between messages; it is not copied."""
    return RecordDict({EVALUATION: ConfigRecord(encoded(plan)), ARRAYS: arrays})


def evaluation_from_content(content: RecordDict) -> EvaluationPlan:
    """ConfigError for a message that is none, or impossible. The weights are not decoded yet."""
    require_only(content, (EVALUATION, ARRAYS))
    return evaluation_only(content)


def evaluation_only(content: RecordDict) -> EvaluationPlan:
    """The plan of a message, which may hold other records beside it, and may lack the weights."""
    return EvaluationPlan(**fields_in(content, EVALUATION, EvaluationPlan))


def offer_question(plan: EvaluationPlan) -> RecordDict:
    """The question with which noise a client would add to a secure sum."""
    return RecordDict({EVALUATION: ConfigRecord(encoded(plan))})


def offer_to_content(offer: EvaluationOffer) -> RecordDict:
    return RecordDict({OFFER: record_of(offer)})


def offer_from_content(content: RecordDict) -> EvaluationOffer | Refusal:
    """A client's answer to `offer_question`; ConfigError for anything else."""
    if REFUSAL in content:
        return refusal_from_content(content)
    require_only(content, (OFFER,))
    return EvaluationOffer(**_labelled(fields_in(content, OFFER, EvaluationOffer)))


def histogram_to_content(answer: SiteHistogram, cells: str = CELLS) -> RecordDict:
    """cells: the name of the array that holds them."""
    return RecordDict(
        {
            HISTOGRAM: record_of(answer, apart=(CELLS, SPENT)),
            SPENT: spent_record(answer.spent),
            ARRAYS: encode({cells: answer.cells}),
        }
    )


def histogram_from_content(content: RecordDict, *, in_sum: bool = False) -> SiteHistogram | Refusal:
    """A client's answer; ConfigError for anything else. Its cells have any length.

    in_sum: our own grid made the reply, whose cells are in a sum: here there are none.
    """
    if REFUSAL in content:
        return refusal_from_content(content)
    require_only(set(content) - SUM_RECORDS if in_sum else content, (HISTOGRAM, SPENT, ARRAYS))
    fields = _labelled(fields_in(content, HISTOGRAM, SiteHistogram, apart=(CELLS, SPENT)))
    cells = np.zeros(0) if in_sum else _cells(array_record(content, ARRAYS))
    return SiteHistogram(**{**fields, "cells": cells, "spent": spent_from_content(content)})


def _labelled(fields: dict[str, Any]) -> dict[str, Any]:
    labels = tuple(one_line(label, MOST_LABEL) for label in fields["subgroups"])
    if labels != tuple(fields["subgroups"]):
        raise ConfigError("an answer with the names of subgroups that no report can show.")
    return fields


def _cells(record: ArrayRecord) -> NDArray:
    found: Any = record.get(CELLS)
    length = found.shape[0] if found is not None and len(found.shape) == 1 else -1
    expected: Mapping[str, ArraySpec] = {CELLS: ArraySpec((length,), np.dtype(np.float64))}
    return decode(record, expected)[CELLS]
