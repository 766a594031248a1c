"""TensorBoard: event files; `tensorboard --logdir` shows those of one folder as one run.

TensorBoard's own writer puts the host name into the file's name, so the files are opened here.
"""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from fl_dp.config.flat import Scalar
from fl_dp.reporting.tracking import Tracker

_VERSION = "brain.Event:2"  # readers expect it in a file's first event
_TEXT = "text"  # TensorBoard's plugin for texts


class _Run:
    """One file for each launch; step numbers continue from the earlier files."""

    def __init__(self, file: BinaryIO) -> None:
        from tensorboard.compat.proto.event_pb2 import Event  # late: TensorBoard is optional
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._file, self._event, self._writer = file, Event, RecordWriter(file)

    def write(self, **fields: Any) -> None:
        self._writer.write(self._event(wall_time=time.time(), **fields).SerializeToString())
        self._writer.flush()

    def log(self, server_round: int, numbers: Mapping[str, float]) -> None:
        values = [{"tag": name, "simple_value": value} for name, value in numbers.items()]
        self.write(step=server_round, summary={"value": values})

    def close(self) -> None:
        self._file.close()


def _open(folder: Path, settings: Mapping[str, Scalar]) -> _Run:
    run = _Run(_new_file(folder))
    run.write(file_version=_VERSION)
    run.write(summary=_text("settings", "```\n" + json.dumps(dict(settings), indent=2) + "\n```"))
    return run


def _new_file(folder: Path) -> BinaryIO:
    """The next file in order: readers look for `tfevents` in the name, and sort by name."""
    number = sum(1 for _ in folder.glob("events.out.tfevents.*")) + 1
    return (folder / f"events.out.tfevents.{number:010d}.fl-dp").open("xb")


def _text(name: str, text: str) -> dict[str, Any]:
    """A summary that shows a text, as TensorBoard's text plugin reads it."""
    tensor = {"dtype": "DT_STRING", "string_val": [text.encode()]}
    plugin = {"plugin_data": {"plugin_name": _TEXT}}
    return {"value": [{"tag": f"{name}/text_summary", "metadata": plugin, "tensor": tensor}]}


TRACKER = Tracker("tensorboard", _open)
