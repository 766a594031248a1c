"""A stage's message as Flower records: the stage, its fields, and for some the round's plan and weights."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, RecordDict

from fl_dp.errors import ConfigError
from fl_dp.federation.wire.arrays import ArraySpec, decode
from fl_dp.federation.wire.messages import array_record, config_record
from fl_dp.records import RoundPlan

SECURE_SUM = "train.secure_sum"  # a kind of message
STAGE, SAID, KEPT, MASKED = "stage", "said", "kept", "masked"
STAGES = ("advertise", "share", "mask", "confirm", "open")
ADVERTISE, SHARE, MASK, CONFIRM, OPEN = STAGES


def common_plan(plan: RoundPlan) -> str:
    """Digest of the part of a plan that all members of a sum share."""
    return sha256(str(plan.common).encode()).hexdigest()


def staged(stage: str, said: Mapping[str, Any], **records: Any) -> RecordDict:
    """A stage's message, or the answer to it. said: the fields of a message of `messages.py`, or the like."""
    return RecordDict({STAGE: ConfigRecord({"stage": stage}), SAID: ConfigRecord(dict(said)), **records})


def stage_of(content: RecordDict) -> str:
    """The message's stage; ConfigError if it is missing or unknown."""
    record = config_record(content, STAGE)
    stage = None if record is None else record.get("stage")
    if stage not in STAGES:
        raise ConfigError("A message of a secure sum without its stage; do both sides run the same fl_dp?")
    return str(stage)


def said(content: RecordDict) -> dict[str, Any]:
    """The message's fields; ConfigError if there are none."""
    record = config_record(content, SAID)
    if record is None:
        raise ConfigError("A message of a secure sum without fields; do both sides run the same fl_dp?")
    return dict(record.items())


def vector_of(content: RecordDict, name: str, numbers: int) -> bytes:
    """The masked numbers of an answer, 8 bytes each, little-endian; ConfigError for anything else."""
    spec = ArraySpec((numbers,), np.dtype(np.uint64))
    vector: bytes = decode(array_record(content, name), {MASKED: spec})[MASKED].astype("<u8").tobytes()
    return vector


def take_kept(content: RecordDict) -> bytes:
    """Take out of the answer what the member keeps for itself: it never leaves the client."""
    record = content.pop(KEPT, None)
    kept = record.get("content") if isinstance(record, ConfigRecord) else None
    return kept if isinstance(kept, bytes) else b""
