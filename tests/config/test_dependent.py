"""What a setting is that nobody gave, beside one that somebody gave."""

import pytest

from fl_dp.config.dependent import dependent_values

EQUAL = {
    "clients": 4,
    "min-clients": 4,
    "fit-clients": 4,
    "expected-batch-size": 64,
    "physical-batch-size": 64,
}


@pytest.mark.parametrize(
    ("changed", "given", "expected"),
    [
        # what equals clients follows it, up and down
        ({}, {"clients": 1}, {"min-clients": 1, "fit-clients": 1}),
        ({}, {"clients": 9}, {"min-clients": 9, "fit-clients": 9}),
        ({}, {"clients": 4}, {}),
        # a smaller value was chosen, and stays as long as it fits
        ({"min-clients": 2, "fit-clients": 3}, {"clients": 9}, {}),
        ({"min-clients": 2, "fit-clients": 3}, {"clients": 2}, {"fit-clients": 2}),
        # what is given is not touched
        ({}, {"clients": 9, "min-clients": 2}, {"fit-clients": 9}),
        ({}, {"clients": 9, "min-clients": 2, "fit-clients": 3}, {}),
        ({}, {"min-clients": 2}, {}),
        # the physical batch is lowered and never raised
        ({}, {"expected-batch-size": 16}, {"physical-batch-size": 16}),
        ({}, {"expected-batch-size": 128}, {}),
        ({"physical-batch-size": "auto"}, {"expected-batch-size": 16}, {}),
        # what is no number of clients is left to the config's own check
        *(({}, {"clients": wrong}, {}) for wrong in ("three", 2.5, True, 0, -1)),
    ],
)
def test_what_depends_on_what_was_given(changed, given, expected):
    assert dependent_values({**EQUAL, **changed}, given) == expected
