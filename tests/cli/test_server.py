"""What server.py makes of its options, up to the point where it would serve."""

import socket
from pathlib import Path
from typing import Any

import pytest

from fl_dp.cli import server as module
from fl_dp.cli.common import run_command
from fl_dp.federation.link import listener
from fl_dp.kits.provision import Wishes, provision
from fl_dp.launch import serving


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[Any, ...]]:
    """Federation, host, port and whether resumed, of what would have been served."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    seen: list[tuple[Any, ...]] = []

    def serve(
        config: Any, folder: Any, kit: Any, host: str, port: int, tell: Any, *, security: bool, resumed: bool
    ) -> int:
        assert security == (kit.roster.federation != "loopback")
        seen.append((kit.roster.federation, host, port, resumed))
        return 0

    monkeypatch.setattr(serving, "serve", serve)
    monkeypatch.setattr(listener, "check_port", lambda host, port: None)  # another server's may be here
    return seen


def server(*words: str) -> int:
    return run_command(module.serve, [*words], prog="server.py")


def test_without_a_kit_it_serves_this_machine_alone(served, tmp_path):
    assert server("--out", "out") == 0
    assert served == [("loopback", "127.0.0.1", 9092, False)]
    keys = tmp_path / "state/fl-dp/loopback/9092"
    assert keys.stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "out/config.toml").exists()
    assert not (tmp_path / "out/launch.toml").exists()  # run.sh has nothing to resume here


def test_a_port_that_is_taken_is_known_before_anything_is_written(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert server("--address", address, "--out", "out") == 2
    assert f"error: {address}: cannot listen there:" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


BAD = ("9092", ":9092", "host:", "host:x", "host:0", "host:65536", "127.0.0.1:\u0662")
OUTSIDE = ("0.0.0.0:9092", "10.0.0.7:9092", "fl.example.org:9092", "[::]:9092")


@pytest.mark.parametrize(
    ("address", "words"),
    [
        *((address, f"--address: {address}: expected HOST:PORT") for address in BAD),
        *((address, "a server on another machine needs a kit, --kit FOLDER") for address in OUTSIDE),
    ],
)
def test_a_bad_address_is_named_and_anything_but_this_machine_needs_a_kit(address, words, served, capsys):
    assert server("--address", address) == 2
    assert words in capsys.readouterr().err
    assert served == []


def test_with_a_kit_it_serves_everywhere_on_the_kits_port(served, tmp_path):
    """By IPv6 too where the roster names such an address: it listened by IPv4 alone."""
    provision(Wishes("study", ("fl.example.org:7000",), (), 30), tmp_path / "made")
    provision(Wishes("six", ("fl.example.org:7000", "[2001:db8::1]:7000"), (), 30), tmp_path / "six")
    assert server("--kit", "made/server") == 0
    assert server("--kit", "made/server", "--address", "127.0.0.1:7001") == 0
    assert server("--kit", "six/server") == 0
    assert served == [
        ("study", "0.0.0.0", 7000, False),
        ("study", "127.0.0.1", 7001, False),
        ("six", "::", 7000, False),
    ]


def test_nothing_may_change_in_a_run_that_is_resumed_and_only_its_own_are(served, tmp_path, capsys):
    def refused(*words):
        assert server("--resume", *words) == 2
        return capsys.readouterr().err

    assert "holds no run" in refused("nowhere")
    assert server("--out", "out") == 0
    assert "--set: a resumed run keeps its settings" in refused("out", "--set", "rounds=9")
    assert server("--resume", "out", "--address", "127.0.0.1:9093") == 0
    assert served[-1] == ("loopback", "127.0.0.1", 9093, True)
    (tmp_path / "out/launch.toml").touch()
    assert "is a run of run.sh; resume it with: fl-dp run --resume DIR" in refused("out")


def test_a_run_that_was_begun_with_a_kit_goes_on_with_one_alone(served, capsys):
    provision(Wishes("study", ("fl.example.org:7000",), (), 30), Path("made"))
    assert server("--kit", "made/server", "--out", "out") == 0
    go_on = "--resume out --kit made/server"
    assert server("--resume", "out") == 2
    said = " ".join(capsys.readouterr().err.split())
    assert (
        f"was begun with a kit, without which its sites cannot join. Resume it with: fl-dp server {go_on}"
        in said
    )
    assert server(*go_on.split()) == 0
    assert served == [("study", "0.0.0.0", 7000, False), ("study", "0.0.0.0", 7000, True)]
