"""What may leave a client is one list: the fields of seven types in docs/privacy.md, and the protocol."""

import dataclasses
import re
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest
from local_updates import local_update

from fl_dp.federation.wire.evaluation import (
    SiteHistogram,
    histogram_to_content,
)
from fl_dp.federation.wire.messages import profile_to_content, refusal_to_content, update_to_content
from fl_dp.records import PROTOCOL, ClientProfile, Entry, Leaves, LocalUpdate, Refusal, leaving
from fl_dp.statements import AccountStatement, Statement

TYPES = (ClientProfile, LocalUpdate, SiteHistogram, Refusal)
DOCUMENT = Path(__file__).parents[1] / "docs" / "privacy.md"
SPENT = (Entry(0.1, 1.0, 2),)
HISTOGRAM = SiteHistogram(np.zeros(9), SPENT, 1.0, 1e-5, 2.0, "pld")


def test_every_field_that_may_leave_has_a_reason_and_stands_in_the_document():
    items = " ".join(DOCUMENT.read_text(encoding="utf-8").split()).split(" - ")
    rows = [item.partition(": `") for item in items]
    told = [(name, reason) for reason, _, names in rows for name in re.findall(r"(\w+\.\w+)`", names)]
    marked = [
        (f"{kind.__name__}.{name}", mark.because)
        for kind in (*TYPES, Statement, AccountStatement)
        for name, (_, mark) in leaving(kind).items()
    ]
    assert sorted(told) == sorted(marked), (
        f"docs/privacy.md names each by its reason, - why: `Type.field`, ...: {set(told) ^ set(marked)}"
    )


def test_a_field_that_is_not_marked_is_refused_at_import():
    with pytest.raises(TypeError, match=r"Entry.sample_rate leaves the client: mark it with why it may"):
        leaving(Entry)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (profile_to_content(ClientProfile("0", 9, 1.0, 1e-5, SPENT, "rdp")), ClientProfile),
        (update_to_content(local_update({"w": np.zeros(2)}, SPENT, 1, 1.0, 1e-5)), LocalUpdate),
        (histogram_to_content(HISTOGRAM), SiteHistogram),
        (refusal_to_content(Refusal("declined", "no")), Refusal),
    ],
    ids=[kind.__name__ for kind in TYPES],
)
def test_a_message_holds_its_types_fields_and_nothing_else(content, kind):
    sent = {"spent", "arrays"} & set(content)
    if kind is SiteHistogram:
        sent = sent - {"arrays"} | set(content["arrays"])
    records = ("profile", "report", "histogram", "refusal")
    for name in records:
        sent |= set(content.config_records.get(name, {}))
    assert sent == {field.name for field in dataclasses.fields(kind)}
    version = content.pop("version", {})
    assert dict(version) == ({"protocol": PROTOCOL} if kind is ClientProfile else {})
    assert set(content) <= {*records, "spent", "arrays"}


def test_what_is_spent_is_entries_of_public_numbers():
    assert [field.name for field in dataclasses.fields(Entry)] == [
        "sample_rate",
        "noise_multiplier",
        "steps",
        "shares",
    ]


def test_only_numbers_are_shown():
    @dataclasses.dataclass
    class Wordy:
        text: Annotated[str, Leaves("because", shown=True)]

    with pytest.raises(TypeError, match=r"Wordy.text is shown: only int, float and bool can be"):
        leaving(Wordy)
