"""The messages of an evaluation on the sites' own test records.

    server -> client   "evaluation", "arrays"
    client -> server   "histogram", "spent", "arrays", or "refusal"

Like all messages they are checked on receipt, and an answer is built only from `SiteHistogram` or `Refusal`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, MessageType, RecordDict

from fl_dp.federation.wire.arrays import ArraySpec, NDArray, decode, encode
from fl_dp.federation.wire.bounds import require_only
from fl_dp.federation.wire.messages import (
    ARRAYS,
    REFUSAL,
    SPENT,
    array_record,
    read_in,
    record_of,
    refusal_from_content,
    spent_from_content,
    spent_record,
)
from fl_dp.records import (
    LEAST_DELTA,
    LEAST_EPSILON,
    MOST_DELTA,
    MOST_EPSILON,
    Entry,
    Leaves,
    Refusal,
)
from fl_dp.schema import Range, Read, encoded

EVALUATE = MessageType.EVALUATE
EVALUATION, HISTOGRAM, CELLS = "evaluation", "histogram", "cells"
MOST_COUNT = 1e15  # noise included; sums of larger ones would not be numbers, for all sites together


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """What the server asks of a client's test records. All of it is public.

    run, server_round: of the round whose result the weights are. model, task and unit are compared with the
    client's own settings, as those of a RoundPlan.
    """

    run: str
    server_round: int
    model: str
    task: str
    unit: str


def _cells(record: ArrayRecord) -> NDArray:
    found: Any = record.get(CELLS)
    length = found.shape[0] if found is not None and len(found.shape) == 1 else -1
    expected: Mapping[str, ArraySpec] = {CELLS: ArraySpec((length,), np.dtype(np.float64))}
    return decode(record, expected)[CELLS]


@dataclass(frozen=True, slots=True)
class SiteHistogram:
    """A client's answer: the noised histogram of its test records.

    cells: float64 (size,), see `tasks/score_histogram.py`. spent: what its account of test records holds,
    this evaluation included; epsilon, delta: the cost of that; budget: its limit; accountant: its accountant.
    """

    cells: Annotated[NDArray, Read(_cells), Leaves("noised, which evaluate-epsilon pays for")]
    spent: Annotated[tuple[Entry, ...], Leaves("from public numbers")]
    epsilon: Annotated[float, Range(0, MOST_EPSILON), Leaves("computed from spent")]
    delta: Annotated[float, Range(LEAST_DELTA, MOST_DELTA), Leaves("its operator's choice")]
    budget: Annotated[float, Range(LEAST_EPSILON, MOST_EPSILON), Leaves("its operator's choice")]
    accountant: Annotated[str, Leaves("its operator's choice")]


def evaluation_to_content(plan: EvaluationPlan, arrays: ArrayRecord) -> RecordDict:
    """An evaluation's message. `arrays` may be shared between messages; it is not copied."""
    return RecordDict({EVALUATION: ConfigRecord(encoded(plan)), ARRAYS: arrays})


def evaluation_from_content(content: RecordDict) -> EvaluationPlan:
    """ConfigError for an invalid message. The weights are not decoded yet."""
    require_only(content, (EVALUATION, ARRAYS))
    return read_in(content, EVALUATION, EvaluationPlan)


def histogram_to_content(answer: SiteHistogram) -> RecordDict:
    return RecordDict(
        {
            HISTOGRAM: record_of(answer, apart=(CELLS, SPENT)),
            SPENT: spent_record(answer.spent),
            ARRAYS: encode({CELLS: answer.cells}),
        }
    )


def histogram_from_content(content: RecordDict) -> SiteHistogram | Refusal:
    """A client's answer; ConfigError for anything else. Its cells have any length."""
    if REFUSAL in content:
        return refusal_from_content(content)
    require_only(content, (HISTOGRAM, SPENT, ARRAYS))
    cells, spent = array_record(content, ARRAYS), spent_from_content(content)
    return read_in(content, HISTOGRAM, SiteHistogram, cells=cells, spent=spent)
