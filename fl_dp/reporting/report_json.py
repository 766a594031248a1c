"""Reports as JSON: how rounds.jsonl and summary.json spell the values of `reports`."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from functools import cache, lru_cache
from operator import attrgetter
from typing import Any

from fl_dp.records import Entry

# Keys that only some runs and clients have: left out if they have these values.
_OF_SOME: dict[str, Any] = {
    "shares": 1,
    "epsilon_alone": None,
    "budget_alone": None,
    "claimed_epsilon": None,
    "planned_epsilon": None,
    "secure_sum": None,
    "masked": None,
    "this_run": None,
    "constant": {},
    "site_metrics": None,
    "outcomes": {},
    "test_accounts": None,
    "unheard": 0,
}


def as_json(record: Any, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """Like `asdict`, whose deep copies would take a hundred milliseconds for a thousand clients.

    without: fields that are left out, of the record and of its clients.
    """
    line: dict[str, Any] = {}
    kind: Any = type(record)
    names, values_of = _fields_of(kind)
    for name, value in zip(names, values_of(record), strict=True):
        if name in without or (name in _OF_SOME and value == _OF_SOME[name]):
            continue
        if name == "clients":
            line[name] = {client: as_json(one, without) for client, one in value.items()}
        else:
            line[name] = _ENCODED[name](value) if name in _ENCODED and value is not None else value
    return line


@cache
def _fields_of(kind: Any) -> tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]:
    names = tuple(one.name for one in fields(kind))
    return names, attrgetter(*names)


def _site_metrics(record: Any) -> dict[str, Any]:
    line = as_json(record)
    line["metrics"] = {name: asdict(one) for name, one in record.metrics.items()}
    line["sites"] = {
        name: as_json(one) if one.is_there else {"status": one.status, "reason": one.reason}
        for name, one in record.sites.items()
    }
    return line


@lru_cache(maxsize=4096)
def _charges(entries: tuple[Entry, ...]) -> list[dict[str, Any]]:
    """Cached: most clients of a round are alike."""
    return [entry.to_dict() for entry in entries]


_ENCODED: dict[str, Callable[[Any], Any]] = {
    "federation": as_json,
    "secure_sum": asdict,
    "this_run": as_json,
    "site_metrics": _site_metrics,
    "test_accounts": _site_metrics,
    "charges": _charges,
    "before": _charges,
    "reported": dict,
}


def strict_json(value: Any) -> Any:
    """`value` with every NaN and infinity replaced by None: JSON has neither."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: strict_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [strict_json(item) for item in value]
    return value


def dumps(value: Mapping[str, Any], indent: int | None = None) -> str:
    """As JSON, in which NaN and infinity are null."""
    try:
        return json.dumps(value, allow_nan=False, indent=indent)
    except ValueError:  # a number that JSON does not have; searching every report first takes longer
        return json.dumps(strict_json(value), allow_nan=False, indent=indent)
