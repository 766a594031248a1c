"""What server and clients say to each other, as Flower records, checked on receipt.

                       registration        a round
    server -> client   nothing             "plan", "arrays"
    client -> server   "profile", "spent"  "report", "spent", "arrays"
    client -> server, in either, where there is nothing else to answer: "refusal"
    after the last round, server -> client: "arrays", "about"; client -> server: "heard", "statement"

What another machine sent is not trusted to be well-formed: a message with a missing, unknown, mistyped or
impossible field is a ConfigError in words. A reply is built here from `ClientProfile`, `LocalUpdate` or
`Refusal` alone; what is not a field of these does not leave the client.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, RecordDict

from fl_dp.clean_text import one_line
from fl_dp.decoding import encoded, fields_of
from fl_dp.errors import (
    BudgetExhaustedError,
    ConfigError,
    DataError,
    DeclinedError,
    FlDpError,
    LedgerError,
    RoundTakenError,
    TaskError,
)
from fl_dp.federation.wire.arrays import ArraySpec, NDArray, decode, encode
from fl_dp.federation.wire.bounds import Spent, check_profile, entries_of, require_only
from fl_dp.records import (
    MOST_WEIGHT,
    ClientProfile,
    Entry,
    LocalUpdate,
    Refusal,
    RoundPlan,
    leaving,
)

ARRAYS, PLAN, PROFILE, REFUSAL, REPORT, SPENT = "arrays", "plan", "profile", "refusal", "report", "spent"
FINAL_MODEL = "query.final_model"  # a kind of message: the model of a run that is over
ABOUT, HEARD = "about", "heard"  # what it is, and that it has come
STATEMENT = "statement"  # what the site then says of its data, and its signature
NO_ARRAYS = ArrayRecord()  # a reply's whose update is in a sum; shared, because making one takes a while
NO_REASON = "it gave no reason"

UPDATE_RECORDS = frozenset((REPORT, SPENT, ARRAYS))

_APART = ("arrays", "spent")  # fields with records of their own


def refusal_of(error: BaseException) -> Refusal:
    """What may be told about `error`: its words if fl_dp worded them for strangers, else one fixed line.

    Another library's text may quote the data, and even its class may depend on them. A DataError and a
    LedgerError name files, and files may bear the names of patients. All stay in the client's log.
    """
    if isinstance(error, RoundTakenError):  # no decline: those have cost nothing
        return Refusal("failed", one_line(str(error)))
    if isinstance(error, DeclinedError):
        return Refusal("declined", one_line(str(error)), isinstance(error, BudgetExhaustedError))
    if isinstance(error, DataError):
        return Refusal("failed", "its data cannot be used; its own log says why")
    if isinstance(error, TaskError):
        return Refusal("failed", "its task cannot be used; its own log says why")
    if isinstance(error, LedgerError):
        return Refusal("failed", "its ledger cannot be used; its own log says why")
    if isinstance(error, FlDpError):
        return Refusal("failed", one_line(error.own_words))
    return Refusal("failed", "an unexpected error; its own log says which")


def config_record(content: RecordDict, name: str) -> ConfigRecord | None:
    """The config record of that name; None: there is none. Flower's `config_records` copies all of them."""
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
    """The plan, and the global weights, still undecoded because only the model knows their shapes."""
    return plan_only(content), array_record(content, ARRAYS)


def plan_only(content: RecordDict) -> RoundPlan:
    """The plan of a message that need not have the weights."""
    return RoundPlan(**_fields(content, PLAN, RoundPlan))


def profile_to_content(profile: ClientProfile) -> RecordDict:
    return RecordDict({PROFILE: _record(profile), SPENT: _spent_record(profile.spent)})


def profile_from_content(content: RecordDict) -> ClientProfile | Refusal:
    """A client's answer when it is asked to register."""
    if REFUSAL in content:
        return _refusal(content)
    require_only(content, (PROFILE, SPENT))
    profile = ClientProfile(**_fields(content, PROFILE, ClientProfile), spent=_spent(content))
    check_profile(profile)
    return profile


def update_to_content(update: LocalUpdate) -> RecordDict:
    arrays = encode(update.arrays) if update.arrays else NO_ARRAYS
    return RecordDict({REPORT: _record(update), SPENT: _spent_record(update.spent), ARRAYS: arrays})


def refusal_to_content(refusal: Refusal) -> RecordDict:
    return RecordDict({REFUSAL: _record(refusal)})


def reply_from_content(
    content: RecordDict, expected: Mapping[str, ArraySpec]
) -> tuple[LocalUpdate | Refusal, str]:
    """A client's answer to a round, and what is wrong with its arrays (else empty).

    Apart, because what a client has spent counts even when its arrays cannot be used. What else stands in
    the message is not looked at: the server refuses it before (`server/verify.py`).
    """
    if REFUSAL in content:
        return _refusal(content), ""
    arrays, problem = {}, ""
    try:
        arrays = decode(array_record(content, ARRAYS), expected)
        _check_sizes(arrays)
    except ConfigError as error:
        arrays, problem = {}, str(error)
    report = _fields(content, REPORT, LocalUpdate)
    return LocalUpdate(arrays=arrays, spent=_spent(content), **report), problem


def _check_sizes(arrays: Mapping[str, NDArray]) -> None:
    """ConfigError for numbers that no client of fl_dp sends, and none would go on from."""
    for name, array in arrays.items():
        if array.dtype.kind in "fc" and array.size and abs(array).max() > MOST_WEIGHT:
            raise ConfigError(f"array {name!r}: holds values beyond {MOST_WEIGHT:g}.")


def _refusal(content: RecordDict) -> Refusal:
    require_only(content, (REFUSAL,))
    fields = _fields(content, REFUSAL, Refusal)
    return Refusal(**{**fields, "reason": one_line(fields["reason"]) or NO_REASON})


def _record(leaves: ClientProfile | LocalUpdate | Refusal) -> ConfigRecord:
    """Its fields, but those that have records of their own. TypeError for one that may not leave."""
    fields = encoded(leaves)
    return ConfigRecord({name: fields[name] for name in leaving(type(leaves)) if name not in _APART})


def _spent_record(entries: Sequence[Entry]) -> ConfigRecord:
    columns = (field.name for field in dataclasses.fields(Spent))
    return ConfigRecord({name: [getattr(entry, name) for entry in entries] for name in columns})


def _spent(content: RecordDict) -> tuple[Entry, ...]:
    return entries_of(Spent(**_fields(content, SPENT, Spent)))


def _fields(content: RecordDict, name: str, kind: type) -> dict[str, Any]:
    """What the config record `name` says of that kind, but what is in records of its own."""
    record = config_record(content, name)
    if record is None:
        raise ConfigError(f"message without the record {name!r}; do both sides run the same fl_dp?")
    return fields_of(kind, dict(record.items()), apart=_APART, whole=True)
