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

import typing
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal

from flwr.app import ArrayRecord, ConfigRecord, RecordDict

from fl_dp.clean_text import one_line
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
from fl_dp.federation.wire.bounds import (
    check_profile,
    entries_of,
    impossible,
    require,
    require_only,
)
from fl_dp.records import (
    MOST_WEIGHT,
    REFUSAL_STATUSES,
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

_PLAN_FIELDS = typing.get_type_hints(RoundPlan)
_SPENT_FIELDS = dict.fromkeys(("sample_rate", "noise_multiplier", "steps", "shares", "copies"), list)


def _scalar_fields(record: type) -> dict[str, type]:
    """Name and type of the record's fields that travel as they are; what is spent and arrays do not."""
    fields = {name: typing.get_origin(kind) or kind for name, (kind, _) in leaving(record).items()}
    plain = {name: str if kind is Literal else kind for name, kind in fields.items()}
    return {name: kind for name, kind in plain.items() if kind in (str, int, float, bool)}


_PROFILE_FIELDS = _scalar_fields(ClientProfile)
_REPORT_FIELDS = _scalar_fields(LocalUpdate)
_REFUSAL_FIELDS = _scalar_fields(Refusal)


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
    fields = {name: getattr(plan, name) for name in _PLAN_FIELDS}
    return RecordDict({PLAN: ConfigRecord(fields), ARRAYS: arrays})


def plan_from_content(content: RecordDict) -> tuple[RoundPlan, ArrayRecord]:
    """The plan, and the global weights, still undecoded because only the model knows their shapes."""
    return plan_only(content), array_record(content, ARRAYS)


def plan_only(content: RecordDict) -> RoundPlan:
    """The plan of a message that need not have the weights."""
    return RoundPlan(**_fields(content, PLAN, _PLAN_FIELDS))


def profile_to_content(profile: ClientProfile) -> RecordDict:
    fields = {name: getattr(profile, name) for name in _PROFILE_FIELDS}
    return RecordDict({PROFILE: ConfigRecord(fields), SPENT: _spent_record(profile.spent)})


def profile_from_content(content: RecordDict) -> ClientProfile | Refusal:
    """A client's answer when it is asked to register."""
    if REFUSAL in content:
        return _refusal(content)
    require_only(content, (PROFILE, SPENT))
    profile = ClientProfile(**_fields(content, PROFILE, _PROFILE_FIELDS), spent=_spent(content))
    check_profile(profile)
    return profile


def update_to_content(update: LocalUpdate) -> RecordDict:
    fields = {name: getattr(update, name) for name in _REPORT_FIELDS}
    arrays = encode(update.arrays) if update.arrays else NO_ARRAYS
    return RecordDict({REPORT: ConfigRecord(fields), SPENT: _spent_record(update.spent), ARRAYS: arrays})


def refusal_to_content(refusal: Refusal) -> RecordDict:
    return RecordDict({REFUSAL: ConfigRecord(asdict(refusal))})


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
    report = _fields(content, REPORT, _REPORT_FIELDS)
    return LocalUpdate(arrays=arrays, spent=_spent(content), **report), problem


def _check_sizes(arrays: Mapping[str, NDArray]) -> None:
    """ConfigError for numbers that no client of fl_dp sends, and none would go on from."""
    for name, array in arrays.items():
        if array.dtype.kind in "fc" and array.size and abs(array).max() > MOST_WEIGHT:
            raise ConfigError(f"array {name!r}: holds values beyond {MOST_WEIGHT:g}.")


def _refusal(content: RecordDict) -> Refusal:
    require_only(content, (REFUSAL,))
    fields = _fields(content, REFUSAL, _REFUSAL_FIELDS)
    require(fields["status"] in REFUSAL_STATUSES, "status", " or ".join(REFUSAL_STATUSES))
    return Refusal(**{**fields, "reason": one_line(fields["reason"]) or NO_REASON})


def _spent_record(entries: Sequence[Entry]) -> ConfigRecord:
    return ConfigRecord({name: [getattr(entry, name) for entry in entries] for name in _SPENT_FIELDS})


def _spent(content: RecordDict) -> tuple[Entry, ...]:
    return entries_of(*_fields(content, SPENT, _SPENT_FIELDS).values())


def _fields(content: RecordDict, name: str, kinds: Mapping[str, type]) -> dict[str, Any]:
    """The values of the config record `name`, in the order of `kinds`: these fields, of these types."""
    record = config_record(content, name)
    if record is None:
        raise ConfigError(f"message without the record {name!r}; do both sides run the same fl_dp?")
    values: dict[str, Any] = dict(record.items())
    require_only(values, kinds, f"{name!r}, fields")
    for field, kind in kinds.items():
        if type(values[field]) is not kind:  # a bool is no int
            raise impossible(f"{name}.{field}", kind.__name__)
    return {field: values[field] for field in kinds}
