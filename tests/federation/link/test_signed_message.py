"""What is asked and answered holds for one federation, run, round, kind and site."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto

from fl_dp.errors import FederationError
from fl_dp.federation.link.signed_message import SIGNED, Bearing, checked, signed
from fl_dp.kits.keys import SigningKey

KEY = SigningKey.generate()
ASKED = Bearing("study", 7, "train", "3", "a" * 64, 1e9)
ANSWERED = replace(ASKED, answers="b" * 64)


def content() -> RecordDict:
    weights = ArrayRecord({"w": Array(np.ones(3, dtype=np.float32))})
    return RecordDict({"plan": ConfigRecord({"steps": 3, "rate": 0.5}), "arrays": weights})


@pytest.mark.parametrize("bearing", [ASKED, ANSWERED])
def test_it_travels_and_holds(bearing: Bearing) -> None:
    sent = recorddict_from_proto(recorddict_to_proto(signed(content(), bearing, KEY)))
    plain = checked(sent, bearing, KEY.public)
    assert SIGNED not in plain
    assert plain["plan"] == content()["plan"]


@pytest.mark.parametrize("bearing", [ASKED, ANSWERED])
@pytest.mark.parametrize(
    "other",
    [
        {"federation": "another"},
        {"run": 8},
        {"message_type": "query"},
        {"group": "4"},
        {"site": "c" * 64},
        {"created": 1e9 + 1},
        {"answers": "c" * 64},
    ],
)
def test_it_holds_for_nothing_else_and_by_no_other_key(bearing: Bearing, other: dict[str, Any]) -> None:
    """An instruction is no answer, too: else a server could make an answer of what it may sign."""
    message = signed(content(), bearing, KEY)
    with pytest.raises(FederationError, match="lacks the signature"):
        checked(message, replace(bearing, **other), KEY.public)
    with pytest.raises(FederationError, match="lacks the signature"):
        checked(message, bearing, SigningKey.generate().public)


def changed(name: str, record: Any) -> RecordDict:
    whole = signed(content(), ASKED, KEY)
    if record is None:
        del whole[name]
    else:
        whole[name] = record
    return whole


@pytest.mark.parametrize(
    "whole",
    [
        changed("plan", ConfigRecord({"steps": 4, "rate": 0.5})),
        changed("plan", ConfigRecord({"steps": 3, "rate": 0.5000000000000001})),
        changed("plan", None),
        changed("more", ConfigRecord({})),
        changed("arrays", ArrayRecord({"w": Array(np.zeros(3, dtype=np.float32))})),
        changed("arrays", ArrayRecord({"v": Array(np.ones(3, dtype=np.float32))})),
        changed(SIGNED, None),
        changed(SIGNED, ConfigRecord({})),
        changed(SIGNED, ConfigRecord({"signature": "text"})),
        changed(SIGNED, ConfigRecord({"signature": b"\0" * 64})),
    ],
)
def test_nothing_of_it_may_be_another(whole: RecordDict) -> None:
    with pytest.raises(FederationError, match="the instruction lacks the signature"):
        checked(whole, ASKED, KEY.public)
