"""A site and a server whose messages differ say so before anybody pays."""

import dataclasses
from hashlib import sha256
from types import ModuleType

import pytest
from flwr.app import ConfigRecord

from fl_dp import schema, statements
from fl_dp.errors import ConfigError
from fl_dp.federation.secure_sum import messages as of_sums
from fl_dp.federation.secure_sum import wire
from fl_dp.federation.wire import bounds, evaluation, messages
from fl_dp.records import PROTOCOL, ClientProfile

PINNED = (3, "5b0c643f0c2a165b")
PROFILE = ClientProfile("hospital-3", 640, 3.0, 1e-5, (), "pld")


def fields(*modules: ModuleType) -> str:
    """The names of all fields that messages have, by class."""
    held = [one for module in modules for one in vars(module).values() if isinstance(one, type)]
    kinds = [one for one in held if dataclasses.is_dataclass(one) and one.__module__ != schema.__name__]
    named = {kind.__name__: [field.name for field in dataclasses.fields(kind)] for kind in kinds}
    return sha256(repr((sorted(named.items()), wire.STAGES)).encode()).hexdigest()[:16]


def test_another_message_is_another_protocol():
    found = fields(messages, bounds, evaluation, of_sums, statements)
    assert (PROTOCOL, found) == PINNED, "other messages: raise records.PROTOCOL, and pin both here"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (None, "speaks no protocol that has a number, this server protocol"),  # 0.1.0
        ({}, "speaks no protocol that has a number"),
        ({"protocol": "1"}, "speaks no protocol that has a number"),
        (
            {"protocol": PROTOCOL + 1},
            f"speaks protocol {PROTOCOL + 1}, this server protocol {PROTOCOL}: install",
        ),
    ],
)
def test_a_site_of_another_protocol_is_refused_before_its_numbers_are_read(said, words):
    content = messages.profile_to_content(PROFILE)
    assert messages.profile_from_content(content) == PROFILE
    content["profile"] = ConfigRecord({"unheard-of": 1})
    if said is None:
        del content["version"]
    else:
        content["version"] = ConfigRecord(said)
    with pytest.raises(ConfigError, match=words):
        messages.profile_from_content(content)
