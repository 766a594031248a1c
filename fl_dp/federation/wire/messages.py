"""The messages between server and clients, as Flower records, checked on receipt.

                       registration        a round
    server -> client   nothing             "plan", "arrays"
    client -> server   "profile", "spent"  "report", "spent", "arrays"
                       "version"
    client -> server, in either, if there is no other answer: "refusal"
    after the last round, server -> client: "arrays", "about"; client -> server: "heard", "statement"

Messages from another machine are not trusted to be well-formed: a missing, unknown, mistyped or impossible
field is a ConfigError that names it. A reply is built here, only from `ClientProfile`, `LocalUpdate` or
`Refusal`: what is not a field of these does not leave the client.
"""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict

from fl_dp.clean_text import one_line
from fl_dp.errors import ConfigError
from fl_dp.federation.wire.arrays import ArraySpec, NDArray, decode, encode
from fl_dp.federation.wire.bounds import Spent, check_profile, entries_of, require_only
from fl_dp.records import (
    MOST_WEIGHT,
    PROTOCOL,
    ClientProfile,
    Entry,
    LocalUpdate,
    Refusal,
    RoundPlan,
    leaving,
)
from fl_dp.schema import encoded, read

ARRAYS, PLAN, PROFILE, REFUSAL, REPORT, SPENT = "arrays", "plan", "profile", "refusal", "report", "spent"
FINAL_MODEL = "query.final_model"  # a kind of message: the model of a run that is over
ABOUT, HEARD = "about", "heard"  # records: of which run it is, and that it has arrived
VERSION = "version"  # the record of a profile with its side's `PROTOCOL`, a constant of the code
STATEMENT = "statement"  # the site's statement about its data, and its signature
NO_ARRAYS = ArrayRecord()  # for replies whose update is in a sum; shared, because making one takes a while
NO_REASON = "it gave no reason"

UPDATE_RECORDS = frozenset((REPORT, SPENT, ARRAYS))

_APART = ("arrays", "spent")  # fields with records of their own
Kind = TypeVar("Kind")


def set_metadata(message: Message, **fields: str | float) -> None:
    """Set fields of the metadata, as Flower's grids do when they push a message; it has no public way."""
    message.metadata.__dict__.update({f"_{name}": value for name, value in fields.items()})


def config_record(content: RecordDict, name: str) -> ConfigRecord | None:
    """The config record of that name, or None. Flower's own `config_records` copies all of them."""
    record = content.get(name)
    return record if isinstance(record, ConfigRecord) else None


def array_record(content: RecordDict, name: str) -> ArrayRecord:
    """The array record of that name; ConfigError if there is none."""
    record = content.get(name)
    if not isinstance(record, ArrayRecord):
        raise ConfigError(f"message without the array record {name!r}.")
    return record


def plan_to_content(plan: RoundPlan, arrays: ArrayRecord) -> RecordDict:
    """A round's message. `arrays` may be shared between messages; it is not copied."""
    return RecordDict({PLAN: ConfigRecord(encoded(plan)), ARRAYS: arrays})


def plan_from_content(content: RecordDict) -> tuple[RoundPlan, ArrayRecord]:
    """The plan, and the global weights, not decoded yet because only the model knows their shapes."""
    return plan_only(content), array_record(content, ARRAYS)


def plan_only(content: RecordDict) -> RoundPlan:
    return read_in(content, PLAN, RoundPlan)


def profile_to_content(profile: ClientProfile) -> RecordDict:
    version = ConfigRecord({"protocol": PROTOCOL})
    return RecordDict({VERSION: version, PROFILE: record_of(profile), SPENT: spent_record(profile.spent)})


def profile_from_content(content: RecordDict) -> ClientProfile | Refusal:
    if REFUSAL in content:
        return refusal_from_content(content)
    _check_protocol(content)
    require_only(content, (VERSION, PROFILE, SPENT))
    profile = read_in(content, PROFILE, ClientProfile, spent=spent_from_content(content))
    check_profile(profile)
    return profile


def _check_protocol(content: RecordDict) -> None:
    """ConfigError for a site with another protocol. Nothing more is read: it may mean something else."""
    record = config_record(content, VERSION)
    found = None if record is None else record.get("protocol")
    if found != PROTOCOL:
        known = f"protocol {found}" if type(found) is int else "no protocol that has a number"
        raise ConfigError(
            f"speaks {known}, this server protocol {PROTOCOL}: install one version of fl_dp at all sites. "
            "Nothing was paid."
        )


def update_to_content(update: LocalUpdate) -> RecordDict:
    arrays = encode(update.arrays) if update.arrays else NO_ARRAYS
    return RecordDict({REPORT: record_of(update), SPENT: spent_record(update.spent), ARRAYS: arrays})


def refusal_to_content(refusal: Refusal) -> RecordDict:
    return RecordDict({REFUSAL: record_of(refusal)})


def reply_from_content(
    content: RecordDict, expected: Mapping[str, ArraySpec]
) -> tuple[LocalUpdate | Refusal, str]:
    """A client's answer to a round, and what is wrong with its arrays (else empty).

    The two are separate, because a client's cost counts even if its arrays cannot be used. Other records are
    ignored here; the server has refused them before (`server/verify.py`).
    """
    if REFUSAL in content:
        return refusal_from_content(content), ""
    arrays, problem = {}, ""
    try:
        arrays = decode(array_record(content, ARRAYS), expected)
        if (name := beyond_use(arrays)) is not None:
            raise ConfigError(f"array {name!r}: holds values beyond {MOST_WEIGHT:g}.")
    except ConfigError as error:
        arrays, problem = {}, str(error)
    spent = spent_from_content(content)
    return read_in(content, REPORT, LocalUpdate, arrays=arrays, spent=spent), problem


def beyond_use(arrays: Mapping[str, NDArray]) -> str | None:
    """The first array with values beyond MOST_WEIGHT, which clients neither send nor accept; or None."""
    floats = ((name, array) for name, array in arrays.items() if array.dtype.kind in "fc" and array.size)
    return next((name for name, array in floats if abs(array).max() > MOST_WEIGHT), None)


def refusal_from_content(content: RecordDict) -> Refusal:
    require_only(content, (REFUSAL,))
    refusal = read_in(content, REFUSAL, Refusal)
    return dataclasses.replace(refusal, reason=one_line(refusal.reason) or NO_REASON)


def record_of(leaves: Any, apart: Collection[str] = _APART) -> ConfigRecord:
    """All fields but those `apart`. TypeError for a field that may not leave."""
    fields = encoded(leaves)
    return ConfigRecord({name: fields[name] for name in leaving(type(leaves)) if name not in apart})


def spent_record(entries: Sequence[Entry]) -> ConfigRecord:
    columns = (field.name for field in dataclasses.fields(Spent))
    return ConfigRecord({name: [getattr(entry, name) for entry in entries] for name in columns})


def spent_from_content(content: RecordDict) -> tuple[Entry, ...]:
    return entries_of(read_in(content, SPENT, Spent))


def read_in(content: RecordDict, name: str, kind: type[Kind], **apart: Any) -> Kind:
    """The `kind` in the config record `name`. apart: its fields that are not there."""
    record = config_record(content, name)
    if record is None:
        raise ConfigError(f"message without the record {name!r}; do both sides run the same fl_dp?")
    return read(kind, dict(record.items()), apart=apart, whole=True)
