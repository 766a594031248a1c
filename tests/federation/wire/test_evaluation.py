"""The messages of an evaluation: what is sent comes back, and anything else is refused by name."""

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord

from fl_dp.errors import ConfigError
from fl_dp.federation.wire.arrays import encode
from fl_dp.federation.wire.evaluation import (
    EvaluationPlan,
    SiteHistogram,
    evaluation_from_content,
    evaluation_to_content,
    histogram_from_content,
    histogram_to_content,
)
from fl_dp.records import Entry, Refusal

PLAN = EvaluationPlan("run", 3, "linear", "", "record")
ANSWER = SiteHistogram(np.arange(5.0), (Entry(1.0, 5.0, 2),), 1.0, 1e-5, 2.0, "pld")


def test_arrays_survive_the_wire():
    assert evaluation_from_content(evaluation_to_content(PLAN, ArrayRecord())) == PLAN
    back = histogram_from_content(histogram_to_content(ANSWER))
    assert (back.cells == ANSWER.cells).all()
    assert (back.spent, back.epsilon) == (ANSWER.spent, ANSWER.epsilon)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epsilon": float("nan")}, "impossible epsilon"),
        ({"delta": 0.0}, "impossible delta"),
        ({"budget": 1e9}, "impossible budget"),
        ({"more": 1}, "not known"),
        ({"accountant": 7}, "impossible accountant"),
    ],
)
def test_an_impossible_field_is_named(changes, words):
    content = histogram_to_content(ANSWER)
    content["histogram"] = ConfigRecord({**dict(content["histogram"].items()), **changes})
    with pytest.raises(ConfigError, match=words):
        histogram_from_content(content)


@pytest.mark.parametrize(
    "arrays",
    [
        {},
        {"cells": np.zeros((2, 2))},
        {"cells": np.zeros(3, np.float32)},
        {"cells": np.array([np.inf])},
        {"cells": np.zeros(3), "more": np.zeros(1)},
    ],
    ids=["none", "two dimensions", "float32", "infinite", "more"],
)
def test_cells_of_another_form_are_refused(arrays):
    content = histogram_to_content(ANSWER)
    content["arrays"] = encode(arrays)
    with pytest.raises(ConfigError, match="array"):
        histogram_from_content(content)


def test_records_that_do_not_belong_together_are_refused():
    content = histogram_to_content(ANSWER)
    content["profile"] = ConfigRecord({})
    with pytest.raises(ConfigError, match="do not belong together"):
        histogram_from_content(content)
    content = evaluation_to_content(PLAN, ArrayRecord())
    content["plan"] = ConfigRecord({})
    with pytest.raises(ConfigError, match="do not belong together"):
        evaluation_from_content(content)
    content = evaluation_to_content(PLAN, ArrayRecord())
    del content["arrays"]  # a model is always part of the question
    with pytest.raises(ConfigError, match="do not belong together"):
        evaluation_from_content(content)


def test_a_refusal_is_read_as_one():
    from fl_dp.federation.wire.messages import refusal_to_content

    refusal = Refusal("declined", "no")
    assert histogram_from_content(refusal_to_content(refusal)) == refusal
