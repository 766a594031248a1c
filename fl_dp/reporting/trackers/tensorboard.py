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
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._file = file
        self._writer = RecordWriter(file)

    def write(self, event: Any) -> None:
        self._writer.write(event.SerializeToString())
        self._writer.flush()

    def log(self, server_round: int, numbers: Mapping[str, float]) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        values = [Summary.Value(tag=name, simple_value=value) for name, value in numbers.items()]
        self.write(Event(wall_time=time.time(), step=server_round, summary=Summary(value=values)))

    def close(self) -> None:
        self._file.close()


def _open(folder: Path, settings: Mapping[str, Scalar]) -> _Run:
    from tensorboard.compat.proto.event_pb2 import Event

    run = _Run(_new_file(folder))
    run.write(Event(wall_time=time.time(), file_version=_VERSION))
    run.write(_text_event("settings", "```\n" + json.dumps(dict(settings), indent=2) + "\n```"))
    return run


def _new_file(folder: Path) -> BinaryIO:
    """The next file in order: readers look for `tfevents` in the name, and sort by name."""
    number = sum(1 for _ in folder.glob("events.out.tfevents.*")) + 1
    return (folder / f"events.out.tfevents.{number:010d}.fl-dp").open("xb")


def _text_event(name: str, text: str) -> Any:
    """An event that shows a text, as TensorBoard's text plugin reads it."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.types_pb2 import DT_STRING

    plugin = SummaryMetadata.PluginData(plugin_name=_TEXT)
    value = Summary.Value(
        tag=f"{name}/text_summary",
        metadata=SummaryMetadata(plugin_data=plugin),
        tensor=TensorProto(dtype=DT_STRING, string_val=[text.encode()]),
    )
    return Event(wall_time=time.time(), summary=Summary(value=[value]))


TRACKER = Tracker("tensorboard", _open)
