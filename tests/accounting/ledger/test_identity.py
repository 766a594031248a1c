"""Which data sets may stand beside each other in one ledger: those that nothing says overlap."""

from dataclasses import replace

import pytest

from fl_dp.accounting.ledger.identity import Identity, conflict
from fl_dp.accounting.ledger.overlap import sketch

RECORDS = [bytes([n]) * 32 for n in range(40)]
HALVES = "2 parts (iid, seed 0)"
PART = Identity("set, part 0/2 (iid, seed 0)", "f0", "set", HALVES, sketch(RECORDS[:20], b"key"))


@pytest.mark.parametrize(
    "other",
    [
        replace(PART, dataset="set, part 1/2 (iid, seed 0)", fingerprint="f1"),  # copies of records or not
        Identity("other", "g", "other", "", sketch(RECORDS[20:], b"key")),
        Identity("unknown", "g", "unknown"),
    ],
)
def test_what_shares_no_records_may_stand_beside_it(other):
    assert conflict(PART, other) == conflict(other, PART) == ""


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"fingerprint": "f9"}, "entered with other contents. Restore the data, or retire set, part 0/2"),
        ({"dataset": "copy", "source": "copy"}, "entered as set, part 0/2 (iid, seed 0), not copy; use that"),
        (
            {"dataset": "set, part 0/3 (iid, seed 0)", "fingerprint": "f9", "cut": "3 parts (iid, seed 0)"},
            "set is entered as set, part 0/2 (iid, seed 0); set, part 0/3 (iid, seed 0) would share records",
        ),
        ({"dataset": "set", "fingerprint": "f9", "cut": ""}, "set would share records with it"),
        (
            {
                "dataset": "copy",
                "fingerprint": "f9",
                "source": "copy",
                "sketch": sketch(RECORDS[15:], b"key"),
            },
            "copy seems to share many records with set, part 0/2",
        ),
    ],
    ids=["changed", "renamed", "cut otherwise", "the whole", "overlapping"],
)
def test_what_may_share_records_is_refused_with_words_that_say_what_to_do(changes, words):
    reason = conflict(PART, replace(PART, **changes))
    assert words in reason
    assert conflict(replace(PART, **changes), PART)
