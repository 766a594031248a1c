"""Weights & Biases offline: its records hold the numbers, and nothing of this machine."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tracked import WORD, pretend, told_of_this_machine

from fl_dp.reporting.trackers.wandb import TRACKER

pytest.importorskip("wandb", reason="wandb is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")  # wandb's own


def records(folder: Path) -> Iterator[Any]:
    """All records below the folder."""
    from wandb.proto.wandb_internal_pb2 import Record

    for file in sorted(folder.rglob("*.wandb")):
        for data in log_records(file.read_bytes()):
            record = Record()
            record.ParseFromString(data)
            yield record


def log_records(content: bytes) -> Iterator[bytes]:
    """The records of a log in LevelDB's format, whose blocks of 32 KiB cut long ones."""
    assert content.startswith(b":W&B")
    at, whole = 7, b""
    while at + 7 <= len(content):
        left = 32768 - at % 32768
        length, kind = int.from_bytes(content[at + 4 : at + 6], "little"), content[at + 6]
        if left < 7 or kind == 0:
            at += left  # filled up
            continue
        whole += content[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield whole
            whole = b""


def history(folder: Path, name: str) -> list[tuple[int, float]]:
    rows = [
        {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in one.history.item}
        for one in records(folder)
        if one.HasField("history")
    ]
    return [(row["_step"], row[name]) for row in rows if name in row]


def test_a_run_that_went_on_keeps_its_name_and_steps_and_names_nothing_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, tmp_path)
    before = dict(os.environ)
    run = TRACKER.open(tmp_path, {"epsilon": 3.0}, "")
    for number in (1, 2):
        run.log(number, {"model/loss": 1 / number})
        print(WORD)
    run.close(completed=False)
    again = TRACKER.open(tmp_path, {"epsilon": 3.0}, run.key)
    again.log(3, {"model/loss": 0.25})
    assert not list(tmp_path.rglob("*.log"))  # nor while it is open
    again.close(completed=True)
    assert history(tmp_path, "model/loss") == [(1, 1.0), (2, 0.5), (3, 0.25)]
    ids = {one.run.run_id for one in records(tmp_path) if one.HasField("run")}
    assert ids == {run.key} == {again.key}
    (host,) = {one.run.host for one in records(tmp_path) if one.HasField("run")}
    assert host in ("", "-")
    kinds = {one.WhichOneof("record_type") for one in records(tmp_path)}
    assert not kinds & {"output", "output_raw", "stats", "files", "environment", "metadata"}
    assert told_of_this_machine(tmp_path) == []
    assert dict(os.environ) == before
