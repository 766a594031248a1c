"""What Ray itself prints stays off the console: it may quote records."""

import logging
import sys
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import ray

from fl_dp.simulation.cluster.runtime import output_in_the_log, running


def _printed_by(thread: str, text: str, file: Any) -> None:
    """Print in a thread of that name, to the stream that is the standard one by then."""
    one = threading.Thread(name=thread, target=lambda: print(text, file=getattr(sys, file)))
    one.start()
    one.join()


@pytest.mark.parametrize("file", ["stdout", "stderr"])
def test_what_ray_prints_is_logged_and_what_others_print_is_printed(capsys, caplog, file):
    before = sys.stdout, sys.stderr
    with output_in_the_log():
        _printed_by("ray_listen_error_messages", "\x1b[33m(raylet)\x1b[0m A worker died: record 17.", file)
        _printed_by("progress", "Round 3", file)
    assert (sys.stdout, sys.stderr) == before
    seen = capsys.readouterr()
    assert (seen.out + seen.err) == "Round 3\n"
    assert [(one.name, one.message) for one in caplog.records] == [
        ("fl_dp.clients", "Ray: (raylet) A worker died: record 17.")
    ]


def test_nor_does_it_reach_the_console_by_a_handler_of_the_log(capsys):
    """As that of logging itself, where a program has set up none."""
    log = logging.getLogger("fl_dp.clients")
    with output_in_the_log():
        log.addHandler(handler := logging.StreamHandler())
        _printed_by("ray_listen_error_messages", "A worker died: record 17.", "stdout")
        log.removeHandler(handler)
    assert capsys.readouterr() == ("", "")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning:ray")
def test_a_real_ray_prints_only_in_threads_that_are_known_as_its_own():
    before = set(threading.enumerate())
    with (
        TemporaryDirectory(prefix="fl-dp-", dir="/tmp") as scratch,  # sockets want a short path
        running("", Path(scratch), 1),
    ):
        (found,) = [one for one in ray.nodes() if one["Alive"]]
        names = {one.name for one in set(threading.enumerate()) - before}
    assert found["Resources"]["CPU"] == 1
    assert "ray_listen_error_messages" in names
