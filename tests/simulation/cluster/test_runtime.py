"""An address where no cluster is: words, at once, and nothing started."""

import logging
import os
import socket
import sys
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import ray

from fl_dp.errors import ConfigError, FederationError
from fl_dp.simulation.cluster.runtime import MEMORY_SETTINGS, check_cluster, output_in_the_log, running


def test_a_listening_port_passes():
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_cluster(f"127.0.0.1:{server.getsockname()[1]}")


@pytest.mark.parametrize("address", ["auto", "head", "head:", ":6379", "head:x", "ray://head:10001:x"])
def test_what_is_no_address_is_refused(address):
    with pytest.raises(ConfigError, match=r"--ray-address .*: expected HOST:PORT"):
        check_cluster(address)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.0.0.1:99999", "no-such-host.invalid:6379"])
def test_where_nothing_answers_it_is_said_so(address, tmp_path):
    with pytest.raises(ConfigError, match=r"no Ray cluster answers there"):
        check_cluster(address)
    with pytest.raises(ConfigError, match=r"no Ray cluster answers there"), running(address, tmp_path, 1):
        raise AssertionError("it must not get here")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("error", [ConnectionError("gone"), RuntimeError("Version mismatch"), SystemExit(15)])
def test_a_cluster_that_cannot_be_joined_is_an_error_in_words(monkeypatch, error):
    def init(**options: Any) -> None:
        raise error

    monkeypatch.setattr("fl_dp.simulation.session.ray.init", init)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ConfigError, match="cannot join the Ray cluster"), running(address, Path("/"), 1):
            raise AssertionError("it must not get here")


@pytest.mark.parametrize("own", [None, "glibc.malloc.arena_max=1"])
def test_what_the_user_tells_the_c_library_is_kept(monkeypatch, own):
    name, ours = MEMORY_SETTINGS
    monkeypatch.setenv(name, own or "")
    if own is None:
        monkeypatch.delenv(name)

    def init(**options: Any) -> None:
        raise RuntimeError(os.environ[name])

    monkeypatch.setattr("fl_dp.simulation.session.ray.init", init)
    with pytest.raises(FederationError, match=own or ours), running("", Path("/"), 1):
        raise AssertionError("it must not get here")


@pytest.mark.parametrize("cluster", [False, True], ids=["this machine", "a cluster"])
def test_ray_is_quiet_and_is_shut_down_also_after_an_error(monkeypatch, cluster):
    asked: list[Any] = []
    monkeypatch.setattr("fl_dp.simulation.session.ray.init", lambda **options: asked.append(options))
    monkeypatch.setattr("fl_dp.simulation.session.ray.shutdown", lambda: asked.append("shut down"))
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}" if cluster else ""
        with pytest.raises(KeyError, match="asked 1"), running(address, Path("/scratch"), 3):
            raise KeyError(f"asked {len(asked)}")
    ours = {"num_cpus": 3, "include_dashboard": False, "_temp_dir": "/scratch/r"}
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    assert asked == [quiet | ({"address": address} if cluster else ours), "shut down"]


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
