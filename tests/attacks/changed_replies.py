"""Replies that are valid but for one field, record, array or metadatum: what a hostile client sends.

Random bytes die in protobuf and prove nothing; these reach the server's judgment.
"""

import copy
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict
from flwr.app.message import make_message

from fl_dp.federation.wire.arrays import encode

Change = Callable[[Message, random.Random], Message]

FLOATS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    math.nan,
    math.inf,
    -math.inf,
    5e-324,
    1e-300,
    1e-13,
    1e-4,
    0.5,
    1 - 1e-16,
    1 + 1e-9,
    1e6,
    1e7,
    1e38,
    1e308,
    -1e308,
]
INTEGERS = [0, 1, -1, 2, 63, 2**31, 2**53 + 1, 10**12 + 1, 2**62, 2**63 - 1, -(2**63)]
TEXTS = [
    "",
    "..",
    ".",
    "a/b",
    "\\",
    "0",
    "pld",
    "prv",
    "x:y",
    "declined",
    "failed",
    "\x00",
    "\x1b[2J",
    "\n" * 9,
    "\u202e",
    "é" * 400,
    "proven",
    "__class__",
    "{0}",
    "%s",
]
OTHERS = [True, False, b"", b"\x80pickle", [], [0.1], [1, 2, 3], [True], ["0"], [math.nan] * 3]
SIZES = [0, 1, 65, 1001]


def changed(reply: Message, rng: random.Random) -> Message:
    """The reply with one thing changed; the original stays as it is."""
    kinds: list[Change] = [_metadatum, _whole]
    if reply.has_content():
        kinds += [_field, _field, _field, _record]
        if any(isinstance(one, ArrayRecord) and len(one) for one in reply.content.values()):
            kinds += [_array, _array]
    return rng.choice(kinds)(_copied(reply), rng)


def _copied(reply: Message) -> Message:
    content = None
    if reply.has_content():
        records = {name: _copied_record(record) for name, record in reply.content.items()}
        content = RecordDict(records)
    error = reply.error if reply.has_error() else None
    return make_message(metadata=copy.copy(reply.metadata), content=content, error=error)


def _copied_record(record: Any) -> Any:
    """A ConfigRecord's lists may be shared with the client that sends it."""
    if isinstance(record, ConfigRecord):
        return ConfigRecord(
            {key: list(value) if isinstance(value, list) else value for key, value in record.items()}
        )
    return type(record)(dict(record.items()))


def _other(value: Any, rng: random.Random) -> Any:
    """Another value than `value`: of its type and near it, at an end of its type, or of another type."""
    near: list[Any] = []
    if isinstance(value, float):
        near = [value * (1 + 1e-7), value * 2, -value, value + 1, math.nextafter(value, math.inf)]
    elif isinstance(value, int):
        near = [value + 1, value - 1, -value, 2 * value]
    elif isinstance(value, str):
        near = [value + " ", value * 100, value.upper()]
    elif isinstance(value, list):
        near = [_other_list(value, rng) for _ in range(3)]
    pools: Sequence[Sequence[Any]] = [pool for pool in (near, FLOATS, INTEGERS, TEXTS, OTHERS) if pool]
    return rng.choice(rng.choice(pools))


def _other_list(values: list[Any], rng: random.Random) -> list[Any]:
    if not values:
        return rng.choice([[0.1], [1], ["a"]])
    kind = rng.randrange(4)
    at = rng.randrange(len(values))
    if kind == 0:
        return values[:at] + values[at + 1 :]
    if kind == 1:
        return [*values, values[at]]
    if kind == 2:
        return values * rng.choice(SIZES)
    pool = FLOATS if isinstance(values[at], float) else INTEGERS
    return [*values[:at], rng.choice(pool), *values[at + 1 :]]


def _field(reply: Message, rng: random.Random) -> Message:
    named = [(name, one) for name, one in reply.content.items() if isinstance(one, ConfigRecord) and len(one)]
    if not named:
        return _record(reply, rng)
    name, record = rng.choice(named)
    values = dict(record.items())
    key = rng.choice(sorted(values))
    kind = rng.randrange(8)
    if kind == 0:
        del values[key]
    elif kind == 1:
        values[rng.choice(TEXTS) + "x"] = values.pop(key)
    elif kind == 2:
        values["further"] = 1.0
    else:
        values[key] = _other(values[key], rng)
    reply.content[name] = ConfigRecord(values)
    return reply


def _record(reply: Message, rng: random.Random) -> Message:
    content = reply.content
    name = rng.choice(sorted(content))
    others = [
        ConfigRecord({}),
        MetricRecord({"steps": 1}),
        ArrayRecord(),
        ConfigRecord({"group": "1"}),
        ConfigRecord({"group": 7, "messages": "all"}),
        ConfigRecord({"group": "1", "messages": [1.5]}),
        encode({"weight": np.full((2, 3), 1e308)}),
        encode({"weight": np.full((2, 3), 1e30, np.float64)}),
        ConfigRecord({"status": "failed", "reason": "", "budget_exhausted": False}),
    ]
    kind = rng.randrange(4)
    if kind == 0:
        del content[name]
    elif kind == 1:
        record = content[name]
        del content[name]
        content[rng.choice(["group", "sum", "refusal", "profile", "report", "plan", ""])] = record
    elif kind == 2:
        content[name] = rng.choice(others)
    else:
        content[rng.choice(["group", "sum", "refusal", "profile", "report", "further"])] = rng.choice(others)
    return reply


def _array(reply: Message, rng: random.Random) -> Message:
    named = [(name, one) for name, one in reply.content.items() if isinstance(one, ArrayRecord) and len(one)]
    name, record = rng.choice(named)
    arrays = dict(record.items())
    key = rng.choice(sorted(arrays))
    was = arrays[key]
    kind = rng.randrange(7)
    if kind == 0:
        del arrays[key]
    elif kind == 1:
        arrays[rng.choice(TEXTS) + "x"] = arrays.pop(key)
    elif kind == 2:
        arrays["further"] = was
    elif kind == 3:
        values = was.numpy().copy()
        values.reshape(-1)[0] = rng.choice(
            [value for value in FLOATS if abs(value) < 1e38 or not math.isfinite(value)]
        )
        arrays[key] = Array(values)
    elif kind == 4:
        types = [">f4", "f2", "f8", "c8", "i4", "?", "U3"]
        arrays[key] = Array(was.numpy().astype(rng.choice(types)))
    else:
        arrays[key] = _forged(was, rng)
    reply.content[name] = ArrayRecord(arrays)
    return reply


def _forged(was: Array, rng: random.Random) -> Array:
    """The same array with one of its four parts written otherwise."""
    parts: dict[str, Any] = {"dtype": was.dtype, "shape": was.shape, "stype": was.stype, "data": was.data}
    part = rng.choice(sorted(parts))
    data = bytes(was.data)
    at = rng.randrange(len(data))
    values: dict[str, list[Any]] = {
        "dtype": ["float64", "object", "|O", "", "f4", "int8", "<f4"],
        "shape": [(), (0,), (2**40,), (1, *was.shape), (-1,), tuple(reversed(was.shape)), (2**31, 2**31)],
        "stype": ["", "pickle", "torch.Tensor"],
        "data": [
            b"",
            data[:-1],
            data + b"\0",
            data[: len(data) // 2],
            data * 2,
            b"\x80\x05N.",
            data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :],
        ],
    }
    parts[part] = rng.choice(values[part])
    return Array(**parts)


def _metadatum(reply: Message, rng: random.Random) -> Message:
    metadata = reply.metadata.__dict__
    key = rng.choice(sorted(metadata))
    metadata[key] = _metadata_value(key, metadata[key], rng)
    return reply


def _metadata_value(key: str, value: Any, rng: random.Random) -> Any:
    if "task" in key:
        return rng.choice([None, 0, 1, 7])
    if isinstance(value, float):
        return rng.choice([*FLOATS, value + 1, value - 1])
    if isinstance(value, int):
        return rng.choice([11, 12, 13, 0, 1, 2, value + 1])
    return rng.choice([*TEXTS, "1", "2", "3", "4", "train", "query", "evaluate"])


def _whole(reply: Message, rng: random.Random) -> Message:
    reasons = [None, "", "x" * 5000, "\x1b[2J", "two\nlines"]
    error = Error(code=rng.choice([0, -1, 1, 2**31 - 1]), reason=rng.choice(reasons))
    content = rng.choice([None, RecordDict()])
    if content is None:
        return make_message(metadata=reply.metadata, error=error)
    return make_message(metadata=reply.metadata, content=content)
